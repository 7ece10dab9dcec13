package brokertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// scriptDir finds tools/services from the package's folder, where go test runs a test.
func scriptDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the service scripts: %w", err)
	}
	for {
		scripts := filepath.Join(dir, "tools", "services")
		if _, err := os.Stat(filepath.Join(scripts, "lib.sh")); err == nil {
			return scripts, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find the service scripts: no tools/services above the working folder")
		}
		dir = filepath.Dir(dir)
	}
}

// serversDir holds a folder for each server that a test started. Its name begins with the id and start time of the
// test's process, so that a later run can tell which servers have lost their owner.
func serversDir() string { return filepath.Join(os.TempDir(), "relay-test-servers") }

func claimDir() (string, error) {
	if err := os.MkdirAll(serversDir(), 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(serversDir(), owner(os.Getpid())+"-")
}

var swept sync.Once

// sweep ends the servers of test processes that were killed before their cleanup, once per process. What cannot be
// ended now is left to the next run.
func sweep(scripts string) {
	swept.Do(func() {
		entries, err := os.ReadDir(serversDir())
		if err != nil {
			return // nothing was ever started
		}
		for _, entry := range entries {
			name, _, _ := strings.Cut(entry.Name(), "-")
			pid, _, _ := strings.Cut(name, ".")
			id, err := strconv.Atoi(pid)
			if err != nil || owner(id) == name {
				continue
			}
			end(scripts, filepath.Join(serversDir(), entry.Name()))
		}
	})
}

func end(scripts, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), verbLimit)
	defer cancel()
	for script, folders := range map[string]string{"kafka.sh": "kafka", "rabbitmq.sh": "rabbitmq", "postgres.sh": "postgres-*", "pgbouncer.sh": "pgbouncer"} {
		found, _ := filepath.Glob(filepath.Join(dir, folders))
		for _, folder := range found {
			cmd := exec.CommandContext(ctx, filepath.Join(scripts, script), "destroy")
			cmd.Env = append(os.Environ(), "DATA_DIR="+dir, "PG_MAJOR="+strings.TrimPrefix(filepath.Base(folder), "postgres-"))
			if cmd.Run() != nil {
				return
			}
		}
	}
	_ = os.RemoveAll(dir)
}

// owner is a process's id with its start time, because ids come again; empty when there is no such process.
func owner(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold blanks, so the fields are counted behind it; the start time is the 22nd of all.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fmt.Sprintf("%d.%s", pid, fields[19])
}
