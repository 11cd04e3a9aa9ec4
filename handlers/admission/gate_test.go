package admission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/handlers/admission"
)

const (
	here      = "203.0.113.1"
	elsewhere = "203.0.113.2"
)

// issue asks a gate for an id.
func issue(t *testing.T, g *admission.Gate, address string) string {
	t.Helper()
	who, id, err := g.Pass(address, "new")
	if err != nil || id == "" || who.ID != id {
		t.Fatalf("asked for an id: %+v, %q, %v", who, id, err)
	}
	return id
}

// TestID shows ids that are good and ids that aren't: those are nobody's, and
// answered with one that is good.
func TestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := []byte("0123456789abcdef")
		g := admission.NewGate(key, 1000)
		id := issue(t, g, here)
		for name, tt := range map[string]struct {
			gate    *admission.Gate
			address string
			shown   string
			good    bool
		}{
			"its own":             {g, here, id, true},
			"at another address":  {g, elsewhere, id, false},
			"at another replica":  {admission.NewGate(key, 1000), here, id, true},
			"of another key":      {admission.NewGate(nil, 1000), here, id, false},
			"made up":             {g, here, strings.Repeat("A", len(id)), false},
			"another's signature": {g, here, id[:16] + issue(t, g, here)[16:], false},
			"half":                {g, here, id[:16], false},
			"no base64":           {g, here, "../../\r\n", false},
		} {
			who, issued, err := tt.gate.Pass(tt.address, tt.shown)
			if err != nil || (who.ID == tt.shown) != tt.good || (issued == "") != tt.good || who.ID == "" {
				t.Errorf("%s: %+v, issued %q, %v", name, who, issued, err)
			}
		}
		if who, issued, err := g.Pass(here, ""); who.ID != "" || issued != "" || err != nil {
			t.Errorf("who shows nothing is %+v and got %q, %v", who, issued, err)
		}
		time.Sleep(24 * time.Hour)
		if who, _, _ := g.Pass(here, id); who.ID != id {
			t.Error("an id isn't good for a day")
		}
		time.Sleep(2 * time.Hour)
		if who, issued, _ := g.Pass(here, id); who.ID == id || issued == "" {
			t.Error("an id is good for more than a day")
		}
	})
}

// TestMinting asks for ids as fast as it can: there are few of them, they never
// are why a run is refused, and there are more when the address has rested.
func TestMinting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := admission.NewGate(nil, 1000)
		mint := func(runs int) (ids int) {
			for range runs {
				_, id, err := g.Pass(here, "new")
				if err != nil {
					t.Fatal(err)
				}
				if id != "" {
					ids++
				}
			}
			return ids
		}
		first := mint(900)
		if first < 30 || first > 50 {
			t.Errorf("%d ids at once", first)
		}
		time.Sleep(time.Second)
		if again := mint(900); again < 1 || again > 50 {
			t.Errorf("%d ids a second later", again)
		}
		if issue(t, g, elsewhere) == "" {
			t.Error("another address pays for it")
		}
	})
}

// TestCeiling holds an address to its ceiling, whoever asks there.
func TestCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := admission.NewGate(nil, 100)
		passed := func(address func(i int) string) (n int) {
			for i := range 1000 {
				_, _, err := g.Pass(address(i), "")
				if refused, ok := errors.AsType[*admission.Refused](err); ok && refused.Reason == admission.Ceiling {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n
		}
		one := func(int) string { return here }
		if n := passed(one); n != 200 {
			t.Errorf("%d runs at once, want two seconds' worth", n)
		}
		time.Sleep(time.Second)
		if n := passed(one); n != 100 {
			t.Errorf("%d runs a second later, want a second's worth", n)
		}
		if n := passed(func(i int) string { return fmt.Sprintf("198.51.100.%d", i%100) }); n != 1000 {
			t.Errorf("%d of 1000 runs from a hundred addresses", n)
		}
		// All of an IPv6 customer's addresses are one, and none of IPv4's are.
		if n := passed(func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }); n != 200 {
			t.Errorf("%d runs from one IPv6 network", n)
		}
		if n := passed(func(i int) string { return fmt.Sprintf("::ffff:192.0.2.%d", i%100) }); n != 1000 {
			t.Errorf("%d of 1000 runs from mapped IPv4 addresses", n)
		}
	})
}
