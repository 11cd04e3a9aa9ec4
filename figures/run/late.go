package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockstep/figures"
)

// lateTries is how often a path in real time is run before it is said to be late.
const lateTries = 2

// A punctuality is how late a run in real time was, held against what the path's
// own times allow. Past that no rule of the path is asked: it would judge the
// machine and not the lock.
type punctuality struct {
	slack time.Duration // how late anything may be

	mu    sync.Mutex
	worst time.Duration // how late the latest was
}

// came notes how late a step, a beat, a pause or a reply was.
func (p *punctuality) came(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worst = max(p.worst, late)
}

// late tells by how much the run was too late; 0 where it kept its times.
func (p *punctuality) late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worst <= p.slack {
		return 0
	}
	return p.worst
}

// pulse is how often a run looks whether this process stands still.
const pulse = 5 * time.Millisecond

// watch notes how long this process stands still, until the context ends.
func (p *punctuality) watch(ctx context.Context) {
	last := time.Now()
	for pause(ctx, pulse) == nil {
		now := time.Now()
		p.came(now.Sub(last) - pulse)
		last = now
	}
}

// The least and the most that anything may be late, whatever a path's times say.
const (
	leastSlack = 5 * time.Millisecond
	mostSlack  = 500 * time.Millisecond
)

// slackOf is how late a path's steps may be: three quarters of the shortest time
// between two of its moments. These are the times at which its steps and beats are
// due and those at which the leases that they take would end. Nothing is ever early,
// so that it takes the whole of that time for two moments to change places; a quarter
// is left for what can't be seen from here. In a load, where nothing is due at a
// moment, the shortest lease or patience counts.
func slackOf(path *figures.Path) time.Duration {
	moments := []time.Duration{0}
	shortest := 2 * mostSlack
	lease := func(s figures.Step, at time.Duration) {
		if send, ok := s.Does.(figures.Send); ok {
			if _, lasts := figures.LeaseIn(send.Command.Source); lasts > 0 {
				moments = append(moments, at+lasts)
			}
		}
	}
	for _, s := range path.Setup {
		lease(s, 0)
	}
	var now time.Duration
	for _, s := range path.Steps {
		if s.Timed {
			now = s.At
		}
		if wait, ok := s.Does.(figures.Wait); ok {
			now += wait.For
		}
		moments = append(moments, now)
		lease(s, now)
		send, _ := s.Does.(figures.Send)
		for at := now; send.Every > 0 && at <= max(send.Until, now+send.Every); at += send.Every {
			moments = append(moments, at)
		}
		if send.Retry != nil {
			shortest = min(shortest, max(send.Retry.Every, 2*leastSlack))
		}
	}
	for _, l := range path.Loads {
		for _, s := range l.Steps {
			send := s.Does.(figures.Send)
			if _, lasts := figures.LeaseIn(send.Command.Source); lasts > 0 {
				shortest = min(shortest, lasts)
			}
			if send.Retry != nil {
				shortest = min(shortest, send.Retry.For)
			}
		}
	}
	slices.Sort(moments)
	for i := 1; i < len(moments); i++ {
		if gap := moments[i] - moments[i-1]; gap > 0 {
			shortest = min(shortest, gap)
		}
	}
	return min(max(shortest*3/4, leastSlack), mostSlack)
}

// tooLate makes a result of a run that could not keep its times: the same words
// whichever figure it is, with the verdict that its author recorded.
func tooLate(result *figures.Result, path *figures.Path, by, slack time.Duration) {
	result.Status, result.Pattern = figures.Late, ""
	result.Verdict = fmt.Sprintf("This machine is too busy for a run by the clock: something came %d ms late, and this path allows %d ms. No verdict; try again in a moment.",
		by.Milliseconds(), slack.Milliseconds())
	if by == 0 {
		result.Verdict = "This machine is too busy for a run by the clock: it was not done in time. No verdict; try again in a moment."
	}
	if path.Static != "" {
		result.Verdict += " Recorded, when it was quiet: " + path.Static
	}
}
