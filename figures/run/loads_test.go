package run

import (
	"strings"
	"testing"

	"lockstep/figures/read"
)

// TestLoadNames holds what the reader lets rules read of a load against what a load
// gives, for a load whose name is that of a function too.
func TestLoadNames(t *testing.T) {
	for name := range (&counter{}).values() {
		text := strings.NewReplacer("crowd", "all", "gave_up", name).Replace(byTheClock)
		if _, faults := read.Figure([]byte(text), "dive.md", 1, nil); len(faults) > 0 {
			t.Errorf("all.%s: %v", name, faults)
		}
	}
}
