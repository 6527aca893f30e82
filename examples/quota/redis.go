package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goretry/retry"
	"github.com/redis/go-redis/v9"
)

// redisServers are a Redis of this program's own, or one with a replica and three Sentinels. They keep
// nothing on disk but the Sentinels' configuration.
type redisServers struct {
	addrs  []string // for the clients
	master string   // its name, if the addrs are those of Sentinels
	ports  []string
	dir    string
	cmds   map[string]*exec.Cmd // by port
	client redis.UniversalClient
}

const (
	sentinels = 3
	downAfter = 2 * time.Second // a Sentinel calls a master down that has been silent for so long
)

func startRedis(ctx context.Context, sentinel bool) (s *redisServers, err error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, err
	}
	redis.SetLogger(silent{})
	servers := 1
	if sentinel {
		servers = 2 + sentinels
	}
	s = &redisServers{cmds: map[string]*exec.Cmd{}}
	if s.ports, err = freePorts(servers); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "quota-"); err != nil {
		return nil, err
	}
	s.addrs = []string{addr(s.ports[0])}
	err = s.run(ctx, s.ports[0])
	if err == nil && sentinel {
		s.addrs, s.master, err = nil, "quota", s.run(ctx, s.ports[1], "--replicaof", "127.0.0.1 "+s.ports[0])
		for _, port := range s.ports[2:] {
			if err == nil {
				s.addrs, err = append(s.addrs, addr(port)), s.watch(ctx, port)
			}
		}
	}
	s.client = redis.NewUniversalClient(&redis.UniversalOptions{Addrs: s.addrs, MasterName: s.master})
	if err == nil && sentinel {
		err = until(ctx, s.complete)
	}
	if err != nil {
		s.close()
	}
	return s, err
}

func addr(port string) string { return net.JoinHostPort("127.0.0.1", port) }

func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", addr("0"))
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}

// run starts the server of a port, for the first time or again, and returns when it answers.
func (s *redisServers) run(ctx context.Context, port string, args ...string) error {
	cmd := exec.CommandContext(ctx, "redis-server", append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir}, args...)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmds[port] = cmd
	client := redis.NewClient(&redis.Options{Addr: addr(port)})
	defer client.Close()
	return until(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() })
}

// watch starts a Sentinel.
func (s *redisServers) watch(ctx context.Context, port string) error {
	file := filepath.Join(s.dir, port+".conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor %s 127.0.0.1 %s %d\nsentinel down-after-milliseconds %[2]s %[5]d\nsentinel failover-timeout %[2]s 10000\n",
		port, s.master, s.ports[0], sentinels/2+1, downAfter.Milliseconds())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "redis-server", file, "--sentinel")
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmds[port] = cmd
	return nil
}

// complete returns an error unless each Sentinel knows the replica and the other ones.
func (s *redisServers) complete(ctx context.Context) error {
	for _, addr := range s.addrs {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr})
		defer c.Close()
		master, err := c.Master(ctx, s.master).Result()
		if err != nil {
			return err
		}
		if master["num-slaves"] != "1" || master["num-other-sentinels"] != strconv.Itoa(sentinels-1) {
			return errors.New("a Sentinel does not know the others yet")
		}
	}
	return nil
}

// promoted waits until the Sentinels name another master than the first.
func (s *redisServers) promoted(ctx context.Context) error {
	c := redis.NewSentinelClient(&redis.Options{Addr: s.addrs[0]})
	defer c.Close()
	return until(ctx, func(ctx context.Context) error {
		at, err := c.GetMasterAddrByName(ctx, s.master).Result()
		if err == nil && at[1] == s.ports[0] {
			err = errors.New("there is no new master")
		}
		return err
	})
}

// until tries f again for half a minute until it returns no error.
func until(ctx context.Context, f func(context.Context) error) error {
	starting := retry.Policy{Name: "redis", MaxAttempts: retry.Unlimited, MaxElapsed: 30 * time.Second, Backoff: retry.Constant(20 * time.Millisecond)}
	return retry.Run(ctx, starting, f)
}

// empty removes all keys and scripts.
func (s *redisServers) empty(ctx context.Context) error {
	if err := s.client.FlushAll(ctx).Err(); err != nil {
		return err
	}
	return s.client.ScriptFlush(ctx).Err()
}

// scripts returns how many calls of scripts the clients have made.
func (s *redisServers) scripts(ctx context.Context) (n int) {
	text, _ := s.client.Info(ctx, "commandstats").Result()
	for line := range strings.Lines(text) {
		for _, name := range []string{"eval", "evalsha"} {
			var calls int
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d,", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}

// kill kills the first server.
func (s *redisServers) kill() {
	if cmd := s.cmds[s.ports[0]]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		delete(s.cmds, s.ports[0])
	}
}

func (s *redisServers) close() {
	if s.client != nil {
		_ = s.client.Close()
	}
	for _, cmd := range s.cmds {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	_ = os.RemoveAll(s.dir)
}
