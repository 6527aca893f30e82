// Package retryredis lets processes share a quota through Redis: [Fleet] is a key in it, for
// Pace.Share of package retry.
//
//	var model retry.Pace // in the policies of all calls that the quota counts
//
//	go model.Share(ctx, &retryredis.Fleet{Client: client, Key: "provider/model/key"})
//
// Package fleetpace has the law by which they share it. A script has the law once more: only so
// is a step of it atomic, and one request.
//
// # What it costs
//
// An exchange is one EVALSHA, of about a tenth of a millisecond of the server's time. A fleet to
// which nothing is refused makes none. Each process holds one more connection, for the news.
// The key has less than a kilobyte, and expires ten minutes after the last exchange.
//
// # What Redis must be
//
// Redis 4 or later, or what runs its scripts, alone, with Sentinel or as a cluster: there is
// one key, and the channel of the news has its name. The server's clock counts, so those of the
// processes may differ. A replica that becomes the master may lack the last exchanges: then some
// turns are given twice. If it has lost the key, who comes first brings the last rate.
//
// With access lists a user needs the key and the channel, and what this line of an ACL allows:
//
//	~provider/* &provider/* +eval +evalsha +get +set +time +publish +subscribe +unsubscribe +ping
//
// # Trust
//
// Who can write the key, or publish to its channel, can stop the fleet, and have it exchange
// without need. So a key is for one trust zone. An answer that the law cannot give is an error,
// which counts as the store being away. So is a key that has something else than a state, or
// one that no exchange can bring about. It stays as it is, since it may be another program's or
// that of a later version of the law: each process goes on alone until the key is deleted, or has
// expired.
package retryredis
