package clients_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/goretry/retry"
)

// sshServer is a server of SSH that takes one password.
type sshServer struct {
	addr       string
	key        ssh.PublicKey
	passwords  atomic.Int32 // that were tried
	handshakes atomic.Int32
	refuses    ssh.RejectionReason // channels
}

func newSSHServer(t *testing.T, refuses ssh.RejectionReason) *sshServer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &sshServer{addr: l.Addr().String(), key: signer.PublicKey(), refuses: refuses}
	config := &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if s.passwords.Add(1); string(password) == "right" {
			return nil, nil
		}
		return nil, errors.New("wrong")
	}}
	config.AddHostKey(signer)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.handshakes.Add(1)
			go func() {
				defer conn.Close()
				_, channels, requests, err := ssh.NewServerConn(conn, config)
				if err != nil {
					return
				}
				go ssh.DiscardRequests(requests)
				for c := range channels {
					_ = c.Reject(s.refuses, "x")
				}
			}()
		}
	}()
	return s
}

// A login that is refused is tried once: three wrong passwords may lock an account. So is what
// people have to mend, such as another host's key.
func TestSSH(t *testing.T) {
	other := newSSHServer(t, 0).key
	hosts := func(t *testing.T, s *sshServer, key ssh.PublicKey) ssh.HostKeyCallback {
		name := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(name, []byte(knownhosts.Line([]string{s.addr}, key)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		known, err := knownhosts.New(name)
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	_, private, _ := ed25519.GenerateKey(rand.Reader)
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		refuses  ssh.RejectionReason
		set      func(*testing.T, *sshServer, *ssh.ClientConfig) error
		attempts int
	}{
		"a wrong password": {set: func(_ *testing.T, _ *sshServer, c *ssh.ClientConfig) error {
			c.Auth = []ssh.AuthMethod{ssh.Password("wrong")}
			return nil
		}, attempts: 1},
		"wrong answers": {set: func(_ *testing.T, _ *sshServer, c *ssh.ClientConfig) error {
			c.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(string, string, []string, []bool) ([]string, error) { return nil, nil })}
			return nil
		}, attempts: 1},
		"another key of the host": {set: func(_ *testing.T, _ *sshServer, c *ssh.ClientConfig) error {
			c.HostKeyCallback = ssh.FixedHostKey(other)
			return nil
		}, attempts: 1},
		"another key than in known_hosts": {set: func(t *testing.T, s *sshServer, c *ssh.ClientConfig) error {
			c.HostKeyCallback = hosts(t, s, other)
			return nil
		}, attempts: 1},
		"no callback": {set: func(_ *testing.T, _ *sshServer, c *ssh.ClientConfig) error {
			c.HostKeyCallback = nil
			return nil
		}, attempts: 1},
		"no common algorithm": {set: func(_ *testing.T, _ *sshServer, c *ssh.ClientConfig) error {
			c.Ciphers = []string{ssh.InsecureCipherRC4}
			return nil
		}, attempts: 1},
		"a missing passphrase": {set: func(*testing.T, *sshServer, *ssh.ClientConfig) error {
			return last(ssh.ParsePrivateKey(pem.EncodeToMemory(locked)))
		}, attempts: 1},
		"a wrong passphrase": {set: func(*testing.T, *sshServer, *ssh.ClientConfig) error {
			return last(ssh.ParsePrivateKeyWithPassphrase(pem.EncodeToMemory(locked), []byte("wrong")))
		}, attempts: 1},
		"no key": {set: func(*testing.T, *sshServer, *ssh.ClientConfig) error {
			return last(ssh.ParsePrivateKey([]byte("no key")))
		}, attempts: 1},
		"a channel that is prohibited":    {refuses: ssh.Prohibited, attempts: 1},
		"a channel of an unknown type":    {refuses: ssh.UnknownChannelType, attempts: 1},
		"a channel that does not connect": {refuses: ssh.ConnectionFailed, attempts: 3},
		"too many channels":               {refuses: ssh.ResourceShortage, attempts: 3},
		"a server that hangs up": {set: func(_ *testing.T, s *sshServer, c *ssh.ClientConfig) error {
			return last(ssh.Dial("tcp", hangsUp(t), c))
		}, attempts: 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSSHServer(t, tt.refuses)
			attempts := 0
			err := retry.Run(t.Context(), retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}, func(context.Context) error {
				attempts++
				config := &ssh.ClientConfig{User: "x", Auth: []ssh.AuthMethod{ssh.Password("right")}, HostKeyCallback: hosts(t, s, s.key)}
				if tt.set != nil {
					if err := tt.set(t, s, config); err != nil {
						return err
					}
				}
				c, err := ssh.Dial("tcp", s.addr, config)
				if err != nil {
					return err
				}
				defer c.Close()
				return last(c.NewSession())
			})
			if attempts != tt.attempts || err == nil || s.passwords.Load() > int32(tt.attempts) {
				t.Errorf("%v after %d attempts and %d passwords, want %d attempts", err, attempts, s.passwords.Load(), tt.attempts)
			}
		})
	}
}

// hangsUp returns the address of a server that ends each connection at once.
func hangsUp(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return l.Addr().String()
}
