package harm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	good, bad, fair := Figures{Deadline: time.Second}, Figures{Deadline: time.Second}, Figures{Deadline: time.Second}
	bad.With = Outcomes{Calls: 1000, Lost: 500, EarlyCalls: 1000, EarlyLost: 500}
	fair.With = Outcomes{Calls: 1000, Lost: 10, EarlyCalls: 1000, EarlyLost: 10}
	in := func(world string, f Figures) row { return row{world, "guard", f, f.Harm(false)} }
	table := &Table{Long: true, subjects: []Subject{{Name: "guard"}}, rows: []row{
		in("a: new", bad), in("a: known", bad), in("a: mended", good), in("a: good", good), in("a: at the bound", fair),
	}}
	file := filepath.Join(t.TempDir(), "owed")
	write := func(lines ...string) map[string]string {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		owed, err := readOwed(file)
		if err != nil {
			t.Fatal(err)
		}
		return owed
	}
	owed := []string{"guard | a: known | old figures", "guard | a: mended | x", "guard | a: at the bound | x", "guard | a: gone | x"}
	got := fmt.Sprintf("%q", cut(table.compare(write(owed...))))
	if want := `["out of bound: guard | a: new" "within the bound, so it is owed no more: guard | a: mended" "owed, but not measured: guard | a: gone"]`; got != want {
		t.Errorf("problems: %s,\nwant %s", got, want)
	}
	if table.Long = false; len(table.compare(write(owed...))) != 2 {
		t.Errorf("a sample says %q", table.compare(write(owed...)))
	}
	table.Long = true
	table.Update(t, file)
	if owed, err := readOwed(file); err != nil || len(owed) != 2 || len(table.compare(owed)) != 0 {
		t.Errorf("after an update %q is owed, %v", owed, err)
	}
	if err := os.WriteFile(file, []byte("guard\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if owed, err := readOwed(file); err == nil {
		t.Errorf("%q is read of a line without columns", owed)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("a\n<!-- b -->\nold\n<!-- end -->\nc\n<!-- end -->\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	table.subjects = append(table.subjects, Subject{Name: "mild"}, Subject{Name: "meek"})
	for _, s := range []string{"mild", "meek"} {
		table.rows = append(table.rows, row{"a: good", s, good, ""})
	}
	table.Summarize(t, page, "b")
	text, err := os.ReadFile(page)
	if err != nil || !strings.HasPrefix(string(text), "a\n<!-- b -->\n| |") || !strings.Contains(string(text), "\n| guard | 2 of 5 | a: new | 50.0, 0.0 % | ") ||
		!strings.HasSuffix(string(text), "\n| mild; meek | 0 of 1 | | | | |\n<!-- end -->\nc\n<!-- end -->\n") {
		t.Errorf("the page is %q, %v", text, err)
	}
}

// cut takes the figures off.
func cut(problems []string) (short []string) {
	for _, p := range problems {
		columns := strings.Split(p, " | ")
		short = append(short, strings.Join(columns[:2], " | "))
	}
	return short
}

func TestHarmAndItsBounds(t *testing.T) {
	figures := func(deadline time.Duration, lost, early int, p99 time.Duration) Figures {
		return Figures{
			deadline,
			Outcomes{Calls: 1000, Lost: lost, EarlyCalls: 100, EarlyLost: early, P99: p99},
			Outcomes{Calls: 1000, Lost: 100, EarlyCalls: 100, EarlyLost: 10, P99: 2 * time.Second},
		}
	}
	for _, tt := range []struct {
		f            Figures
		harm, sample string
	}{
		{figures(10*time.Second, 110, 11, 3*time.Second), "", ""},
		{figures(10*time.Second, 111, 12, 3*time.Second+1), "lost, early, p99", "p99"},
		{figures(10*time.Second, 50, 5, time.Second), "", ""},
		{figures(10*time.Second, 160, 40, 0), "lost, early", "lost, early"},
		{figures(0, 100, 10, 2200*time.Millisecond), "", ""},
		{figures(0, 101, 11, 2200*time.Millisecond+1), "lost, early, p99", "p99"},
	} {
		if got := tt.f.Harm(false); got != tt.harm {
			t.Errorf("%v: out of bound in %q, want %q", tt.f, got, tt.harm)
		}
		if got := tt.f.Harm(true); got != tt.sample {
			t.Errorf("%v: a sample is out of bound in %q, want %q", tt.f, got, tt.sample)
		}
	}
}

// A world's load must not come to the quota: that would be the trouble that a pace is for.
func TestTheBucketRefuses(t *testing.T) {
	w := base()
	w.rate = 1
	w.length = time.Minute
	_, _, refused := run(t, &w, 0, 0, func(p *Process) Client {
		return func(ctx context.Context, c *Call) error {
			for range 100 {
				if _, err := c.Send(ctx, 0); err != nil {
					return err
				}
			}
			return errors.New("not refused")
		}
	})
	if refused == 0 {
		t.Error("a hundred times the load is within the quota")
	}
}
