// Package retryconf reads and writes a [retry.Policy] as a line of text, for flags,
// environment variables and configuration files:
//
//	attempts=4 backoff=exponential(100ms,10s) jitter=full budget=earned
//
// A [Policy] is parsed from such a text, and formats one, for programs that read
// their configuration: it is an [encoding.TextMarshaler] and an
// [encoding.TextUnmarshaler], so that a field of that type is a string in JSON, in YAML
// and for loaders of environment variables, and a flag by [flag.TextVar].
//
// # The text
//
// Fields are separated by spaces or tabs, in any order. Each is optional and means the
// same as in [retry.Policy]. An empty text is the zero Policy:
//
//	name=fetch-user            or a Go string: name="fetch user"
//	attempts=4                 1 or more, or unlimited
//	max_elapsed=10s
//	attempt_timeout=2s
//	backoff=exponential(base,max,factor)
//	        linear(base,max)  decorrelated(base,max)
//	        constant(wait)    schedule(wait,wait,…)
//	jitter=full                or equal, none, plusminus(0.2), plus(100ms), between(low,high,plus)
//	throttle=…                 the backoff after a Throttled error
//	throttle_jitter=…
//	max_retry_after=5m
//	non_idempotent
//	budget=earned
//	       token(capacity,cost,throttle_cost,reward)
//	       ratio(ratio,min_per_second,window)
//	budget=earned@ledger       the budget named ledger, or @"two words"; without @, that of the policy's name
//
// Arguments may be left out from the right, or be 0, for their defaults. Durations
// have Go's format. A jitter without a backoff applies to the default backoff.
//
// # Budgets
//
// A process has one budget for each name, kind and arguments. So a text that is parsed
// again, after a change of the configuration, does not refill a spent budget. Policies
// share a budget if their texts name the same one after an @, which also keeps it when
// the name of the policy changes. These budgets exist until the process ends.
//
// Nothing identifies the budget of a text without any name. Each time that such a text is
// parsed, it gets a new one.
package retryconf
