package handlers

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/handlers/admission"
)

// tellEvery is how often the log says how many runs were refused.
const tellEvery = time.Minute

// refusals counts the runs that were refused. The log has one line for those of
// a minute, and none where there are none.
type refusals struct {
	log   *slog.Logger
	mu    sync.Mutex
	count map[string]int // by reason
	due   *time.Timer    // for the line; nil while there is nothing to say
}

func newRefusals(log *slog.Logger) *refusals {
	return &refusals{log: log, count: map[string]int{}}
}

// add counts a refusal.
func (r *refusals) add(cause error) {
	reason := "sandbox" // it had no place after all
	if refused, ok := errors.AsType[*admission.Refused](cause); ok {
		reason = strings.TrimPrefix(refused.Lane+"."+string(refused.Reason), ".")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[reason]++
	if r.due == nil {
		r.due = time.AfterFunc(tellEvery, r.tell)
	}
}

// tell logs what has been counted, if anything.
func (r *refusals) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		return
	}
	r.due.Stop()
	total := 0
	var reasons []any
	for _, reason := range slices.SortedFunc(maps.Keys(r.count), func(a, b string) int { return cmp.Compare(r.count[b], r.count[a]) }) {
		total += r.count[reason]
		reasons = append(reasons, slog.Int(reason, r.count[reason]))
	}
	r.log.Info("runs refused", "count", total, slog.Group("by", reasons...))
	clear(r.count)
	r.due = nil
}
