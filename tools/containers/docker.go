package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// What start made is marked, so that stop removes nothing else: label holds the server's name, owner the folder that the
// launcher keeps its state in, so that two checkouts do not end each other's servers.
const (
	label = "relay.services"
	owner = "relay.services.dir"
)

// stateDir is the launcher's folder; empty when the command is used by hand.
func stateDir() string { return os.Getenv("SERVICES_DIR") }

// made finds the containers of this checkout; name narrows it to one server.
func made(name string) client.Filters {
	f := client.Filters{}.Add("label", owner+"="+stateDir())
	if name != "" {
		return f.Add("label", label+"="+name)
	}
	return f
}

// open asks the daemon whether it is there.
func open(ctx context.Context) (*testcontainers.DockerClient, error) {
	// the containers outlive this process: no reaper may take them away when it ends
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return nil, err
	}
	cli, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errNoDocker, err)
	}
	return cli, nil
}

func start(ctx context.Context, chosen []server, out io.Writer) error {
	cli, err := open(ctx)
	if err != nil {
		return err
	}
	defer cli.Close()
	if err := markStarted(); err != nil {
		return err
	}
	for _, s := range chosen {
		host, err := startOne(ctx, cli, s)
		if err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		for _, l := range s.lines(host) {
			fmt.Fprintln(out, l)
		}
	}
	return nil
}

// startOne starts s, or finds it running, and returns the host's port of each of its ports.
func startOne(ctx context.Context, cli *testcontainers.DockerClient, s server) (map[string]int, error) {
	running, err := cli.ContainerList(ctx, client.ContainerListOptions{Filters: made(s.name)})
	if err != nil {
		return nil, err
	}
	if len(running.Items) > 0 {
		return portsOf(running.Items[0]), nil
	}
	host, bindings, err := choosePorts(s.ports)
	if err != nil {
		return nil, err
	}
	options := append(s.options(host),
		testcontainers.WithLabels(map[string]string{label: s.name, owner: stateDir()}),
		testcontainers.WithExposedPorts(s.ports...),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) { c.PortBindings = bindings }),
	)
	if _, err := testcontainers.Run(ctx, s.image, options...); err != nil {
		return nil, err
	}
	return host, nil
}

func portsOf(c container.Summary) map[string]int {
	host := map[string]int{}
	for _, p := range c.Ports {
		if p.PublicPort != 0 {
			host[fmt.Sprintf("%d/%s", p.PrivatePort, p.Type)] = int(p.PublicPort)
		}
	}
	return host
}

// choosePorts takes free ports of the loopback address. Another process may take one in between; the start then fails and
// can be repeated.
func choosePorts(ports []string) (map[string]int, network.PortMap, error) {
	host, bindings := map[string]int{}, network.PortMap{}
	loopback := netip.MustParseAddr("127.0.0.1")
	for _, p := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		defer l.Close() // after the loop, so that no port is chosen twice
		port, err := network.ParsePort(p)
		if err != nil {
			return nil, nil, err
		}
		host[p] = l.Addr().(*net.TCPAddr).Port
		bindings[port] = []network.PortBinding{{HostIP: loopback, HostPort: strconv.Itoa(host[p])}}
	}
	return host, bindings, nil
}

func stopAll(ctx context.Context) error {
	cli, err := open(ctx)
	if err != nil {
		return err
	}
	defer cli.Close()
	found, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: made("")})
	if err != nil {
		return err
	}
	for _, c := range found.Items {
		if _, err := cli.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			return fmt.Errorf("remove %s: %w", c.Labels[label], err)
		}
	}
	if dir := stateDir(); dir != "" {
		if err := os.Remove(filepath.Join(dir, "containers")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// markStarted tells the launcher that there are containers to stop.
func markStarted() error {
	if dir := stateDir(); dir != "" {
		return os.WriteFile(filepath.Join(dir, "containers"), nil, 0o644)
	}
	return nil
}
