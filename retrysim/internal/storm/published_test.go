package storm_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/goretry/retry"
	"github.com/goretry/retry/retrysim/internal/storm"
)

// What was published, and what bench/EXPERIMENTS.md sets beside our numbers.

type measured struct{ calls, ms float64 }

var publishedContention = map[string]map[int]measured{
	"none":         {10: {51, 383}, 20: {153, 607}, 50: {688, 1134}, 100: {2421, 2028}},
	"exponential":  {10: {51, 3527}, 20: {150, 14662}, 50: {625, 36666}, 100: {1850, 63064}},
	"equal":        {10: {42.5, 738}, 20: {108, 1600}, 50: {347, 4250}, 100: {812, 6557}},
	"full":         {10: {38.9, 464}, 20: {100.5, 1045}, 50: {333, 2892}, 100: {796, 4935}},
	"decorrelated": {10: {37.9, 438}, 20: {101, 836}, 50: {376, 2159}, 100: {1003, 4595}},
}

var publishedCollapse = map[string][]float64{
	"none":    {1, .63, 1, 1, 1},
	"naive":   {1, .64, .32, .10, .10},
	"backoff": {1, .65, 1.1, 1.1, 1},
	"token":   {1, .64, .95, .95, .95},
}

var publishedHerd = map[string]float64{"none": 1000, "plusminus20": 264, "equal": 216, "full": 115, "decorrelated": 64}

// within reports whether got is as close to want as a share of it.
func within(got, want, share float64) bool { return math.Abs(got-want) <= share*want }

func TestContentionAsPublished(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, seed := range []uint64{1, 1_000_000} { // trials have the seeds that follow
		x := storm.PublishedContention
		x.Seed = seed
		rows := x.Run()
		if len(rows) != 20 {
			t.Fatalf("%d rows, want 20", len(rows))
		}
		at100 := map[string]measured{}
		for _, row := range rows {
			want := publishedContention[row.Policy][row.Clients]
			if !within(row.Calls, want.calls, .03) || !within(row.TimeMS, want.ms, .08) {
				t.Errorf("seed %d: %+v, published %+v", seed, row, want)
			}
			if row.Clients == 100 {
				at100[row.Policy] = measured{row.Calls, row.TimeMS}
			}
		}
		full, plain, decorrelated := at100["full"], at100["exponential"], at100["decorrelated"]
		if full.calls*2 >= plain.calls || plain.ms <= 10*full.ms {
			t.Errorf("seed %d: full jitter %v, none %v: want less than half the calls in less than a tenth of the time", seed, full, plain)
		}
		if decorrelated.calls <= full.calls || decorrelated.ms >= full.ms {
			t.Errorf("seed %d: decorrelated %v, full %v: want more calls in less time", seed, decorrelated, full)
		}
	}
}

// ratioLoad returns the load with a budget.Ratio: its retries are a share of the calls
// that succeed, of which some do so after a retry.
func ratioLoad(failure, ratio float64) float64 { return 1 / (1 - ratio*(1-failure)) }

func TestAmplificationAsPublished(t *testing.T) {
	for _, row := range storm.Amplification(storm.PublishedAmplification, []float64{.1, .5, 1}, 4, .1) {
		f, load, success := row.Failure, 1., 1-row.Failure
		switch row.Policy {
		case "unbudgeted":
			load, success = 1+f+f*f+f*f*f, 1-f*f*f*f
		case "ratio":
			load = ratioLoad(f, .1)
			success *= load
			if row.Load > 1.11 {
				t.Errorf("%+v, published a load of 1.11 at most", row)
			}
		}
		if !within(row.Load, load, .01) || math.Abs(row.Success-success) > .01 {
			t.Errorf("%+v, want a load of %.3f and a success of %.3f", row, load, success)
		}
	}
}

func TestCollapseAsPublished(t *testing.T) {
	notUnderRace(t)
	long(t)
	for _, seed := range []uint64{1, 2_000_000} {
		x := storm.PublishedCollapse
		x.Seed = seed
		for _, row := range x.Run() {
			last := row.Windows[4].Goodput
			if row.Policy == "naive" {
				if last >= .2 || row.Down < .5 {
					t.Errorf("seed %d: naive retries end with a goodput of %.2f, and down in %.2f of the trials", seed, last, row.Down)
				}
			} else if last <= .95 || row.Down > 0 {
				t.Errorf("seed %d: %s ends with a goodput of %.2f, and down in %.2f of the trials", seed, row.Policy, last, row.Down)
			}
			for i, want := range publishedCollapse[row.Policy] {
				tolerance := .06
				if row.Policy == "naive" && i > 1 { // theirs is a mean, of ten trials of which one got away
					tolerance = .2
				}
				if got := row.Windows[i].Goodput; math.Abs(got-want) > tolerance {
					t.Errorf("seed %d: %s, window %d: goodput %.2f, published %.2f", seed, row.Policy, i, got, want)
				}
			}
		}
	}
}

func TestHerdAsPublished(t *testing.T) {
	for _, seed := range []uint64{1, 3_000_000} {
		x := storm.DocumentedHerd
		x.Seed = seed
		rows := x.Run()
		if len(rows) != 25 {
			t.Fatalf("%d rows, want 25", len(rows))
		}
		for _, row := range rows {
			if want := publishedHerd[row.Policy]; row.Retry == 1 && !within(row.Peak, want, .15) {
				t.Errorf("seed %d: %+v, published %v", seed, row, want)
			}
		}
	}
}

func TestLayersMultiplyUnlessGuardedOrRelayed(t *testing.T) {
	for _, k := range []int{1, 2, 3, 4, 6} {
		for n := range 5 {
			power, single := math.Pow(float64(k), float64(n)), math.Pow(float64(k), float64(min(n, 1)))
			for name, tt := range map[string]struct {
				x    storm.Layers
				want float64
			}{
				"plain":   {storm.Layers{}, power},
				"guarded": {storm.Layers{Policy: retry.Policy{Classify: retry.AlreadyRetried}}, single},
				"relayed": {storm.Layers{Relayed: true}, single},
			} {
				tt.x.Policy.MaxAttempts, tt.x.Depth, tt.x.Fails = k, n, 1
				if got, success := tt.x.Run(); got != tt.want || success != 0 {
					t.Errorf("%d %s layers of %d attempts: %v requests, %v succeed; want %v and none", n, name, k, got, success, tt.want)
				}
			}
		}
	}
}

// Where requests fail at random, retries happen in one layer if a no is passed on, and
// in all if it is not: a call fails if kⁿ requests of its do, or k.
func TestThePriceOfARelayedNo(t *testing.T) {
	const k, calls = 3, 50_000
	for _, fails := range []float64{0, .3, .7} {
		for _, depth := range []int{1, 2, 3} {
			for _, relayed := range []bool{false, true} {
				attempts := math.Pow(k, float64(depth))
				if relayed {
					attempts = k
				}
				lost, requests := math.Pow(fails, attempts), 0.0
				for i := range int(attempts) {
					requests += math.Pow(fails, float64(i))
				}
				got, success := (storm.Layers{Policy: retry.Policy{MaxAttempts: k}, Depth: depth, Fails: fails, Calls: calls, Relayed: relayed, Seed: 3}).Run()
				if chance := 4 * math.Sqrt(lost*(1-lost)/calls); math.Abs(1-success-lost) > chance || !within(got, requests, .02) {
					t.Errorf("%v fail, %d layers, relayed %v: %.4f succeed with %.3f requests; want %.4f and %.3f", fails, depth, relayed, success, got, 1-lost, requests)
				}
			}
		}
	}
}

// These numbers change only if the models do.
func TestSameSeedSameResult(t *testing.T) {
	contention, herd, collapse := storm.PublishedContention, storm.DocumentedHerd, storm.PublishedCollapse
	contention.Clients, contention.Trials, contention.Seed = []int{30}, 3, 7
	herd.Clients, herd.Trials, herd.Seed = 300, 2, 7
	collapse.Trials, collapse.Seed = 3, 7
	got := fmt.Sprint(contention.Run(), herd.Run()[12].Peak)
	for _, row := range collapse.Run() {
		got += fmt.Sprintf(" %d/%d", row.Result.Sent, row.Result.Succeeded)
	}
	const want = `[{none 30 292 802.4672656666667} {exponential 30 255 18568.939489333334} {equal 30 188 3363.7237626666665} {full 30 167.33333333333334 1318.3118646666667} {decorrelated 30 189 1083.957896}] 20.5 10129/9783 23223/3664 10470/10129 10339/9834`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
