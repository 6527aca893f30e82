package tokens_test

import (
	"testing"

	"github.com/goretry/retry/internal/tokens"
)

// What costs more than is left also looks so.
func TestTenths(t *testing.T) {
	for _, tt := range []struct {
		n           float64
		price, left string
	}{
		{0, "0", "0"}, {-3, "0", "0"}, {1, "1", "1"}, {10, "10", "10"}, {160, "160", "160"}, {1e6, "1000000", "1000000"},
		{8.9, "8.9", "8.9"}, {.1 + .2, "0.3", "0.3"}, {1.15, "1.2", "1.1"}, {6.001, "6.1", "6"},
		{9.999999, "10", "9.9"}, {10.000001, "10.1", "10"}, {.000001, "0.1", "0"},
	} {
		if got := tokens.Price(tt.n); got != tt.price {
			t.Errorf("a price of %v is %q, want %q", tt.n, got, tt.price)
		}
		if got := tokens.Left(tt.n); got != tt.left {
			t.Errorf("of %v there are %q left, want %q", tt.n, got, tt.left)
		}
	}
	for tenths := range 10 * 1010 {
		n := float64(tenths) / 10
		if price, left := tokens.Price(n), tokens.Left(n); price != left {
			t.Fatalf("%v, which is in tenths, is %q rounded up, and %q rounded down", n, price, left)
		}
	}
}
