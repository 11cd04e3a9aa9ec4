package contained

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/figures"
	"lockstep/figures/explore"
	"lockstep/figures/read"
	"lockstep/lua"
	"lockstep/sandbox"
	"lockstep/sandbox/server"
)

// threeClients take the lock, work inside and release, with a lease that may run out.
const threeClients = `
id: table
paths:
  - id: all
    programs:
      A: &client
        - do: SET l {{self}} NX PX 30000
          else: stop
        - enter
        - work
        - leave
        - do: EVAL release.lua 1 l {{self}}
      B: *client
      C: *client
    events:
      - lapse: l
    always: {exclusion: inside <= 1}
    verdicts: [{status: safe, text: done}]
`

// TestExplored has the explorer run every order on a contained server, and on the one
// that all share.
func TestExplored(t *testing.T) {
	scripts, err := lua.Load(lua.FS())
	if err != nil {
		t.Fatal(err)
	}
	fig, faults := read.Figure([]byte(threeClients), "dive.md", 1, scripts)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	mine := map[string]string{"release.lua": scripts["release.lua"].Source}
	box, err := server.Open(t.Context(), server.Options{Scripts: mine})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	var shared, contained *figures.Explored
	err = box.Lend(t.Context(), explore.Databases, func(dbs []*sandbox.DB) error {
		result, err := explore.Every(t.Context(), dbs, fig, fig.Paths[0])
		if err == nil {
			shared = result.Explored
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p := available(t, Options{Deadline: 20 * time.Second, CPU: 20 * time.Second, prompt: true})
	trouble, err := p.Use(t.Context(), mine, func(db *sandbox.DB) error {
		result, err := explore.Every(t.Context(), []*sandbox.DB{db}, fig, fig.Paths[0])
		if err == nil {
			contained = result.Explored
		}
		return err
	})
	if trouble != nil || err != nil {
		t.Fatal(trouble, err)
	}
	if diff := cmp.Diff(shared, contained); diff != "" {
		t.Errorf("explored (-shared +contained):\n%s", diff)
	}
	if shared.Schedules < 100 || shared.Violations["exclusion"] == 0 {
		t.Errorf("%d schedules, of which %d broken: that shows nothing", shared.Schedules, shared.Violations["exclusion"])
	}
}

// TestBenchStart prints how long a contained server takes until it is ready, against a
// plain one.
func TestBenchStart(t *testing.T) {
	if os.Getenv("LOCKSTEP_BENCH") == "" {
		t.Skip("set LOCKSTEP_BENCH=1, or run make bench")
	}
	p := available(t, Options{})
	<-p.tested
	median := func(start func(int) (*process, error)) time.Duration {
		all := make([]time.Duration, 31)
		for i := range all {
			begun := time.Now()
			one, err := start(i)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = time.Since(begun)
			one.stop()
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	path, err := server.Find("")
	if err != nil {
		t.Fatal(err)
	}
	plain := median(func(i int) (*process, error) {
		one, err := p.newProcess(fmt.Sprint("bench-plain-", i))
		if err != nil {
			return nil, err
		}
		one.may = p.image.may
		if err := one.spawn([]string{path, "-"}, false); err != nil {
			return nil, err
		}
		return one, one.ready(t.Context())
	})
	contained := median(func(i int) (*process, error) { return p.start(fmt.Sprint("bench-", i)) })
	fmt.Printf("start to ready, contained / plain: %.2f (%v / %v)\n", float64(contained)/float64(plain), contained, plain)
}
