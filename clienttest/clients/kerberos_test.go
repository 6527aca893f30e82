package clients_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	krb5 "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"

	"github.com/goretry/retry"
)

// A login that a KDC refuses is tried once: more of them lock the account. One that finds no KDC
// is repeated.
func TestKerberos(t *testing.T) {
	var programs []string
	for _, name := range []string{"krb5kdc", "kdb5_util", "kadmin.local"} {
		program, err := exec.LookPath(name)
		if err != nil {
			program, err = exec.LookPath(filepath.Join("/usr/sbin", name))
		}
		if err != nil {
			t.Skip("no " + name)
		}
		programs = append(programs, program)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	client := "[libdefaults]\n default_realm = TEST\n udp_preference_limit = 1\n dns_lookup_kdc = false\n[realms]\n TEST = {\n  kdc = " + address + "\n }\n"
	write("acl", "")
	env := append(os.Environ(), "KRB5_CONFIG="+write("krb5.conf", client), "KRB5_KDC_PROFILE="+write("kdc.conf", fmt.Sprintf(
		"[kdcdefaults]\n kdc_listen = \"\"\n kdc_tcp_listen = %s\n[realms]\n TEST = {\n  database_name = %s/db\n  key_stash_file = %[2]s/stash\n  acl_file = %[2]s/acl\n }\n[logging]\n kdc = FILE:%[2]s/log\n",
		address, dir)))
	run := func(program string, args ...string) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
	}
	run(programs[1], "create", "-s", "-P", "master", "-r", "TEST")
	run(programs[2], "-r", "TEST", "-q", "addprinc +requires_preauth -pw right good")
	run(programs[2], "-r", "TEST", "-q", "addprinc -allow_tix -pw right revoked")
	run(programs[2], "-r", "TEST", "-q", "addprinc -pwexpire 2001-01-01 -pw right expired")

	logins := func(user, password string) (n int, err error) {
		conf, err := config.NewFromString(client)
		if err != nil {
			t.Fatal(err)
		}
		err = retry.Run(t.Context(), retry.Policy{Backoff: retry.Constant(time.Millisecond)}, func(context.Context) error {
			n++
			return krb5.NewWithPassword(user, "TEST", password, conf, krb5.DisablePAFXFAST(true)).Login()
		})
		return n, err
	}
	if n, err := logins("good", "right"); n != 3 || err == nil {
		t.Errorf("%d logins without a KDC: %v, want three", n, err)
	}

	kdc := exec.Command(programs[0], "-n", "-r", "TEST")
	kdc.Env = env
	if err := kdc.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = kdc.Process.Kill()
		_ = kdc.Wait()
	}()
	started := time.Now()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			break
		}
		if time.Since(started) > 20*time.Second {
			t.Fatal("krb5kdc hangs")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, tt := range []struct {
		user, password string
		ok             bool
	}{{"good", "right", true}, {"good", "wrong", false}, {"nobody", "right", false}, {"revoked", "right", false}, {"expired", "right", false}} {
		if n, err := logins(tt.user, tt.password); n != 1 || (err == nil) != tt.ok {
			t.Errorf("%d logins of %s with the %s password: %v, want one", n, tt.user, tt.password, err)
		}
	}
}
