package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// clockTick is the unit of the times in /proc; every Linux that Go runs on has 100 a second.
const clockTick = time.Second / 100

// server is the database server as a set of processes, if it runs on this machine.
type server struct {
	postmaster int // 0: elsewhere, or not to be seen
	version    string
	settings   string
}

func newServer(ctx context.Context, pool *pgxpool.Pool) (server, error) {
	s := server{}
	var backend int
	err := pool.QueryRow(ctx, `select pg_backend_pid(), current_setting('server_version'),
	  (select string_agg(name || '=' || current_setting(name), ' ' order by name) from pg_settings
	    where name in ('fsync', 'synchronous_commit', 'wal_level', 'shared_buffers', 'full_page_writes', 'max_wal_size'))`).Scan(&backend, &s.version, &s.settings)
	if err != nil {
		return s, err
	}
	host := pool.Config().ConnConfig.Host
	ip := net.ParseIP(host)
	local := host == "localhost" || strings.HasPrefix(host, "/") || (ip != nil && ip.IsLoopback())
	if st, ok := readStat(backend); local && ok && strings.HasPrefix(st.command, "postgres") {
		s.postmaster = st.parent
	}
	return s, nil
}

// cpu is what the server has used so far: the processes that live, and those that the postmaster buried.
func (s server) cpu() time.Duration {
	if s.postmaster == 0 {
		return 0
	}
	var sum time.Duration
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		st, ok := readStat(pid)
		switch {
		case !ok:
		case pid == s.postmaster:
			sum += st.own + st.children
		case st.parent == s.postmaster:
			sum += st.own
		}
	}
	return sum
}

type stat struct {
	command       string
	parent        int
	own, children time.Duration
}

func readStat(pid int) (stat, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	text := string(data)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return stat{}, false
	}
	f := strings.Fields(text[end+1:])
	if len(f) < 15 {
		return stat{}, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(f[i], 10, 64) // the kernel writes numbers
		return n
	}
	return stat{
		command: text[open+1 : end], parent: int(number(1)),
		own:      time.Duration(number(11)+number(12)) * clockTick,
		children: time.Duration(number(13)+number(14)) * clockTick,
	}, true
}

// ownCPU is what this process has used so far.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machine is a reading of the whole machine.
type machine struct {
	at   time.Time
	busy time.Duration // of all cores
	own  time.Duration
	load string
}

func readMachine() machine {
	m := machine{at: time.Now(), own: ownCPU()}
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(data)); len(f) > 2 {
			m.load = strings.Join(f[:3], " ")
		}
	}
	if data, err := os.ReadFile("/proc/stat"); err == nil {
		line, _, _ := strings.Cut(string(data), "\n")
		for i, f := range strings.Fields(line) {
			if i == 4 || i == 5 || i == 0 { // idle, waiting for a disk, the name
				continue
			}
			if i > 8 { // guests are counted as users
				break
			}
			n, _ := strconv.ParseInt(f, 10, 64) // the kernel writes numbers
			m.busy += time.Duration(n) * clockTick
		}
	}
	return m
}

func cores() int { return runtime.NumCPU() }

// wal is how far the log has come, in bytes.
func wal(ctx context.Context, pool *pgxpool.Pool) (n int64, err error) {
	err = pool.QueryRow(ctx, "select (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n)
	return n, err
}
