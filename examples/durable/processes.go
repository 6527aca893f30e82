package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// This program starts itself again: in the environment is what each process is to be.
const (
	roleKey   = "DURABLE_ROLE"
	configKey = "DURABLE_CONFIG"
)

// actAsChild is a child's whole life. It returns false in the parent.
func actAsChild() bool {
	var err error
	role, config := os.Getenv(roleKey), os.Getenv(configKey)
	if role != "" {
		go func() { // a child ends with its parent, whatever ends that
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	switch role {
	case "":
		return false
	case "server":
		err = serve(config)
	case "consumer":
		err = consume(config)
	default:
		err = errors.New("unknown role " + role)
	}
	fmt.Fprintln(os.Stderr, "durable:", role, "ended:", err)
	os.Exit(1)
	return true
}

// child is a process that this one has started.
type child struct {
	cmd  *exec.Cmd
	out  io.ReadCloser
	url  string // of a server
	dead bool
}

// kill ends the process without a word, as kill -9 does.
func (c *child) kill() {
	if !c.dead {
		c.dead = true
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	}
}

// family is all children, and what they have on disk.
type family struct {
	children []*child
	dirs     []string
}

// end kills who is left.
func (f *family) end() {
	for _, c := range f.children {
		c.kill()
	}
	for _, dir := range f.dirs {
		_ = os.RemoveAll(dir)
	}
}

func (f *family) start(role, config string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleKey+"="+role, configKey+"="+config)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if _, err := cmd.StdinPipe(); err != nil { // open as long as this process lives
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, out: out}
	f.children = append(f.children, c)
	return c, nil
}

// startConsumer starts a consumer that tells its events.
func (f *family) startConsumer(name string, servers servers, events chan<- told) (*child, error) {
	c, err := f.start("consumer", servers.urls())
	if err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(c.out); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				events <- told{e, name}
			}
		}
	}()
	return c, nil
}

// servers are the servers by name.
type servers map[string]*child

func (s servers) urls() string {
	var urls []string
	for _, c := range s {
		urls = append(urls, c.url)
	}
	return strings.Join(urls, ",")
}

// serverConfig is what a server's process is told.
type serverConfig struct {
	Name            string
	Port, RoutePort int
	Routes          []string
	Dir             string
}

// startServers starts a cluster of three.
func (f *family) startServers() (servers, error) {
	const size = 3
	ports, err := freePorts(2 * size)
	if err != nil {
		return nil, err
	}
	var routes []string
	for _, port := range ports[size:] {
		routes = append(routes, fmt.Sprint("nats://127.0.0.1:", port))
	}
	all := servers{}
	for i := range size {
		dir, err := os.MkdirTemp("", "durable")
		if err != nil {
			return nil, err
		}
		f.dirs = append(f.dirs, dir)
		name := fmt.Sprint("server-", i+1)
		config, err := json.Marshal(serverConfig{name, ports[i], ports[size+i], routes, dir})
		if err != nil {
			return nil, err
		}
		c, err := f.start("server", string(config))
		if err != nil {
			return nil, err
		}
		c.url = fmt.Sprint("nats://127.0.0.1:", ports[i])
		all[name] = c
	}
	for name, c := range all {
		if line, err := bufio.NewReader(c.out).ReadString('\n'); err != nil {
			return nil, fmt.Errorf("%s does not start: %q, %w", name, line, err)
		}
	}
	return all, nil
}

// freePorts returns ports that were free a moment ago.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, or one port might come twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// serve is a server's process.
func serve(text string) error {
	var config serverConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: config.Name, Host: "127.0.0.1", Port: config.Port, JetStream: true, StoreDir: config.Dir, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "durable", Host: "127.0.0.1", Port: config.RoutePort},
	}
	for _, route := range config.Routes {
		u, err := url.Parse(route)
		if err != nil {
			return err
		}
		opts.Routes = append(opts.Routes, u)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("not ready after a minute")
	}
	fmt.Println("ready")
	s.WaitForShutdown()
	return nil
}
