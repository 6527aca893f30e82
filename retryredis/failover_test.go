package retryredis_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goretry/retry/fleetpace"
	"github.com/goretry/retry/retryredis"
	"github.com/redis/go-redis/v9"
)

// Sentinel makes the replica the master. The fleet goes on with its state, by the client of
// Sentinel.
func TestFailover(t *testing.T) {
	master := start(t)
	replica := start(t, "--replicaof", "127.0.0.1 "+master.port)
	config := filepath.Join(t.TempDir(), "sentinel.conf") // it writes to it
	lines := []string{
		"sentinel monitor paces 127.0.0.1 " + master.port + " 1", "sentinel down-after-milliseconds paces 500",
		"sentinel failover-timeout paces 5000", "",
	}
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := startSentinel(t, config)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "paces", SentinelAddrs: []string{sentinel.addr()}})
	t.Cleanup(func() { _ = client.Close() })

	f := &retryredis.Fleet{Client: client, Key: "k"}
	paced(t, f, 10)
	before := exchange(t, f, fleetpace.Report{Take: 5, Patience: 60})
	admin := connect(t, replica)
	eventually(t, "had a replica with the state", func() bool { return admin.Exists(t.Context(), "k").Val() == 1 })
	if n, err := connect(t, master).Wait(t.Context(), 1, patience).Result(); n != 1 || err != nil {
		t.Fatalf("%d replicas have it, %v", n, err)
	}
	info := redis.NewSentinelClient(&redis.Options{Addr: sentinel.addr()})
	t.Cleanup(func() { _ = info.Close() })
	eventually(t, "found the replica", func() bool {
		replicas, err := info.Replicas(t.Context(), "paces").Result()
		return err == nil && len(replicas) == 1
	})
	master.kill()
	var after fleetpace.Answer
	eventually(t, "failed over", func() bool {
		var err error
		after, err = f.Exchange(t.Context(), fleetpace.Report{Epoch: before.Epoch, Round: before.Round, Rate: before.Rate, Take: 2, Patience: 60})
		return err == nil
	})
	if after.Epoch != before.Epoch || after.Round != before.Round || after.First < before.Tail {
		t.Errorf("%+v after %+v", after, before)
	}
}
