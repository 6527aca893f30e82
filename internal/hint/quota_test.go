package hint_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/goretry/retry/internal/hint"
)

func TestQuotas(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name   string
		header []string
		want   hint.Quota // zero: none
	}{
		{"draft 10", []string{"RateLimit-Policy", `"default";q=100;w=60`, "RateLimit", `"default";r=50;t=30`}, hint.Quota{Limit: 100, Remaining: 50, Per: time.Minute}},
		{"two policies", []string{"RateLimit-Policy", `"burst";q=100;w=60,"daily";q=1000;w=86400`, "RateLimit", `"burst";r=50;t=30`}, hint.Quota{}},
		{"two policies in two lines", []string{"RateLimit-Policy", `"burst";q=100;w=60`, "RateLimit-Policy", `"daily";q=1000;w=86400`, "RateLimit", `"burst";r=50;t=30`}, hint.Quota{}},
		{"another unit", []string{"RateLimit-Policy", `"size";q=100;qu="content-bytes";w=60`, "RateLimit", `"size";r=50;t=30`}, hint.Quota{}},
		{"a partition", []string{"RateLimit-Policy", `"a";q=100;w=60;pk=:sdf=:`, "RateLimit", `"a";r=50;t=30`}, hint.Quota{}},
		{"a name like a policy", []string{"RateLimit-Policy", `"a;q=1,b";q=100;w=60`, "RateLimit", `"a;r=1,b";r=50;t=30`}, hint.Quota{Limit: 100, Remaining: 50, Per: time.Minute}},
		{"a name with quotes", []string{"RateLimit-Policy", `"a\"q;q=1,\\";q=100;w=60`, "RateLimit", `"a\"q;r=1,\\";r=50;t=30`}, hint.Quota{Limit: 100, Remaining: 50, Per: time.Minute}},
		{"no window", []string{"RateLimit-Policy", `"a";q=100`, "RateLimit", `"a";r=50;t=30`}, hint.Quota{}},
		{"a window of nothing", []string{"RateLimit-Policy", `"a";q=100;w=0`, "RateLimit", `"a";r=50;t=30`}, hint.Quota{}},
		{"nothing known to remain", []string{"RateLimit-Policy", `"a";q=100;w=60`}, hint.Quota{}},
		{"two remains", []string{"RateLimit-Policy", `"a";q=100;w=60`, "RateLimit", `"a";r=50;t=30, "b";r=4;t=3`}, hint.Quota{}},
		{"draft 07", []string{"RateLimit-Policy", "100;w=60", "RateLimit", "limit=100, remaining=50, reset=5"}, hint.Quota{Limit: 100, Remaining: 50, Per: time.Minute}},
		{"draft 03", []string{"RateLimit-Limit", "100, 100;w=60", "RateLimit-Remaining", "50", "RateLimit-Reset", "5"}, hint.Quota{Limit: 100, Remaining: 50, Per: time.Minute}},
		{"draft 03 with two", []string{"RateLimit-Limit", "100, 100;w=60, 1000;w=3600", "RateLimit-Remaining", "50", "RateLimit-Reset", "5"}, hint.Quota{}},
		{"a limit of no time", []string{"RateLimit-Limit", "100", "RateLimit-Remaining", "50", "RateLimit-Reset", "5"}, hint.Quota{}},
		{"more remains than is allowed", []string{"RateLimit-Policy", `"a";q=100;w=60`, "RateLimit", `"a";r=500;t=30`}, hint.Quota{Limit: 100, Remaining: 100, Per: time.Minute}},
		{"no number", []string{"RateLimit-Policy", `"a";q=-100;w=60`, "RateLimit", `"a";r=50;t=30`}, hint.Quota{}},
		{"a limit of nothing", []string{"RateLimit-Policy", `"a";q=0;w=60`, "RateLimit", `"a";r=0;t=30`}, hint.Quota{}},

		{"GitHub", []string{"X-RateLimit-Resource", "core", "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4998", "X-RateLimit-Reset", "1700003600"}, hint.Quota{Limit: 5000, Remaining: 4998, Per: time.Hour}},
		{"GitHub's search", []string{"X-RateLimit-Resource", "search", "X-RateLimit-Limit", "30", "X-RateLimit-Remaining", "0"}, hint.Quota{Limit: 30, Per: time.Minute}},
		{"GitHub's points", []string{"X-RateLimit-Resource", "graphql", "X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4998"}, hint.Quota{}},
		{"no resource", []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4998", "X-RateLimit-Reset", "1700003600"}, hint.Quota{}},

		{"Anthropic", []string{"Anthropic-RateLimit-Requests-Limit", "50", "Anthropic-RateLimit-Requests-Remaining", "49", "Anthropic-RateLimit-Requests-Reset", "2023-11-14T22:13:21Z"}, hint.Quota{Limit: 50, Remaining: 49, Per: time.Minute, Bucket: true}},
		{"Anthropic's tokens", []string{"Anthropic-RateLimit-Tokens-Limit", "50000", "Anthropic-RateLimit-Tokens-Remaining", "49000", "Anthropic-RateLimit-Tokens-Reset", "2023-11-14T22:13:21Z"}, hint.Quota{}},

		{"OpenAI", []string{"X-RateLimit-Limit-Requests", "60", "X-RateLimit-Remaining-Requests", "59", "X-RateLimit-Reset-Requests", "1s"}, hint.Quota{Limit: 60, Remaining: 59, Per: time.Minute, Bucket: true}},
		{"OpenAI with many", []string{"X-RateLimit-Limit-Requests", "10000", "X-RateLimit-Remaining-Requests", "9999", "X-RateLimit-Reset-Requests", "6ms"}, hint.Quota{Limit: 10000, Remaining: 9999, Per: time.Minute, Bucket: true}},
		{"OpenAI with none left", []string{"X-RateLimit-Limit-Requests", "60", "X-RateLimit-Remaining-Requests", "0", "X-RateLimit-Reset-Requests", "1m0s"}, hint.Quota{Limit: 60, Per: time.Minute, Bucket: true}},
		{"a day", []string{"X-RateLimit-Limit-Requests", "14400", "X-RateLimit-Remaining-Requests", "14370", "X-RateLimit-Reset-Requests", "2m59.56s"}, hint.Quota{Limit: 14400, Remaining: 14370, Per: day, Bucket: true}},
		{"seven seconds", []string{"X-RateLimit-Limit-Requests", "60", "X-RateLimit-Remaining-Requests", "30", "X-RateLimit-Reset-Requests", "3.5s"}, hint.Quota{}},
		{"OpenAI, all left", []string{"X-RateLimit-Limit-Requests", "60", "X-RateLimit-Remaining-Requests", "60", "X-RateLimit-Reset-Requests", "0s"}, hint.Quota{}},
		{"Azure", []string{"X-RateLimit-Remaining-Requests", "59", "X-RateLimit-Reset-Requests", "1"}, hint.Quota{}},
		{"nothing", nil, hint.Quota{}},
	} {
		h := http.Header{}
		for i := 0; i < len(tt.header); i += 2 {
			h.Add(tt.header[i], tt.header[i+1])
		}
		got, ok := hint.ParseQuota(h, func() time.Time { return time.Unix(1700000000, 0) })
		if got != tt.want && ok || ok != (tt.want != hint.Quota{}) {
			t.Errorf("%s: %+v, %v, want %+v", tt.name, got, ok, tt.want)
		}
	}
}

// Whatever a server sends, a quota is a positive number in a positive time.
func FuzzQuota(f *testing.F) {
	f.Add(`"a";q=100;w=60`, `"a";r=50;t=30`, "100", "1", "1s")
	f.Add("100;w=60", "limit=100, remaining=50, reset=5", "60", "59", "9223372036.9s")
	f.Fuzz(func(t *testing.T, policy, left, limit, remaining, reset string) {
		h := http.Header{}
		for name, text := range map[string]string{"Ratelimit-Policy": policy, "Ratelimit": left,
			"X-Ratelimit-Limit-Requests": limit, "X-Ratelimit-Remaining-Requests": remaining, "X-Ratelimit-Reset-Requests": reset} {
			h.Set(name, text)
		}
		q, ok := hint.ParseQuota(h, func() time.Time { return time.Unix(1700000000, 0) })
		if ok && !(q.Limit > 0 && q.Remaining >= 0 && q.Remaining <= q.Limit && q.Per > 0) {
			t.Errorf("%+v", q)
		}
	})
}
