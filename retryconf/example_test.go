package retryconf_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retryconf"
)

func ExamplePolicy_UnmarshalText() {
	var p retryconf.Policy
	err := p.UnmarshalText([]byte("attempts=4 backoff=exponential(100ms,10s) jitter=equal budget=earned"))
	fmt.Println(p.MaxAttempts, err)
	err = p.UnmarshalText([]byte("attempts=4 backoff=fast"))
	fmt.Println(err)
	// Output:
	// 4 <nil>
	// retry policy "attempts=4 backoff=fast", column 20: unknown backoff "fast": want one of exponential, linear, decorrelated, constant, schedule
}

func ExamplePolicy_String() {
	fmt.Println(retryconf.Policy{Policy: retry.Policy{
		Name:    "fetch-user",
		Backoff: retry.Linear{Base: time.Second, Jitter: retry.PlusMinus(.1)},
		Budget:  &retry.EarnedBudget{},
	}})
	// Output: name=fetch-user backoff=linear(1s) jitter=plusminus(0.1) budget=earned
}

// A policy in a configuration file.
func ExamplePolicy() {
	var config struct {
		Server string
		Retry  retryconf.Policy
	}
	err := json.Unmarshal([]byte(`{
		"Server": "https://api.example.com",
		"Retry":  "name=fetch-user attempts=4 backoff=exponential(100ms,10s) budget=earned"
	}`), &config)
	fmt.Println(config.Retry.MaxAttempts, err)

	// The embedded Policy is what calls take: retry.Do(ctx, config.Retry.Policy, op).
	config.Retry.Hooks = retry.Hooks{} // and what is code stays code
	b, err := json.Marshal(config)
	fmt.Println(string(b), err)
	// Output:
	// 4 <nil>
	// {"Server":"https://api.example.com","Retry":"name=fetch-user attempts=4 backoff=exponential(100ms,10s) budget=earned"} <nil>
}

// A policy as a flag of a command, with a default.
func ExamplePolicy_flag() {
	p := retryconf.Policy{Policy: retry.Policy{MaxAttempts: 3, Classify: retry.AlreadyRetried}}
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	flags.SetOutput(os.Stdout)
	flags.TextVar(&p, "retry", p, "retry `policy` of calls to the server")
	flags.PrintDefaults()
	err := flags.Parse([]string{"-retry", "attempts=5 max_elapsed=10s"})
	fmt.Println(p, err)

	err = p.UnmarshalText([]byte("attempts=many"))
	fmt.Println(err)
	// Output:
	//   -retry policy
	//     	retry policy of calls to the server (default attempts=3)
	// attempts=5 max_elapsed=10s <nil>
	// retry policy "attempts=many", column 10: "many": want attempts, 1 or more or unlimited; without it 3
}

// What has no text is an error to encoders.
func ExamplePolicy_MarshalText() {
	half := retry.BackoffFunc(func(s retry.Step) time.Duration { return s.Prev / 2 })
	_, err := retryconf.Policy{Policy: retry.Policy{Backoff: half}}.MarshalText()
	fmt.Println(err)
	// Output: retryconf: a backoff of type retry.BackoffFunc has no text
}
