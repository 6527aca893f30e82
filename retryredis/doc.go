// Package retryredis keeps a quota in Redis for the processes that share it: see [Store] and
// [pace.Pace.Share].
//
// # For operators
//
// The key is a hash of times in seconds, by Redis's clock, and of turns: tat is when the last turn comes that
// was given, at is the time of the latest request, until is when the last hold ends, and moved
// grows by the time that holds have taken. passed is when a request passed last. Turns may be given ahead of others from
// ahead on, and free turns were given back, which lie between freed and tat. What tat is ahead of at is the length of the
// queue, less than a second but for a hold or many processes with few turns. No process can hold the queue: it is
// given at most half of what is free in the next half second, or one turn.
//
// You may delete the key at any time. Then at most one Burst and the turns of half a second are given
// twice. It expires when all of the quota is free again, but not within ten minutes. Processes of different versions may
// share it, if their Quota, Per and Burst are the same.
//
// An attempt costs one call of the script, which takes Redis some 20 µs, or less if several attempts of
// a process wait. It costs two to three if the quota gives each process less than a turn in twenty
// seconds. A process without attempts makes none. Each process has one
// subscription, to a channel with the key's name. A user of Redis needs EVALSHA, EVAL, SUBSCRIBE, the
// key and the channel, and what the script calls: TIME, HMGET, HLEN, HMSET, PEXPIRE, PUBLISH.
//
// While a process goes on alone, its Status, the page of package retrydebug and the error.type
// of the metric retry.pace.shared say why:
//
//   - WRONGTYPE, or ERR with "something else than a quota": another program has the key;
//   - NOPERM, or ERR with "can't run this command": the user may not do one of the above;
//   - READONLY: the client talks to a replica, as in a failover;
//   - OOM: Redis is full, and may remove nothing;
//   - no answer within half a second: Redis is slow, or away.
package retryredis
