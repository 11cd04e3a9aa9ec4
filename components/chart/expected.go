package chart

import (
	"math"
	"slices"
	"strconv"
	"time"

	"lockstep/components/say"
	"lockstep/figures"
)

// expected is how long a path's steps will take, as far as its text tells.
// False where it doesn't: a load runs as fast as the machine does.
func expected(p *figures.Path) (time.Duration, bool) {
	if len(p.Loads) > 0 {
		return 2 * time.Second, false
	}
	leases := map[string]time.Duration{} // when each ends
	for _, s := range p.Setup {
		if key, lasts := figures.LeaseIn(say.Written(s)); lasts > 0 {
			leases[key] = lasts
		}
	}
	var now, end time.Duration
	for _, s := range p.Steps {
		if s.Timed {
			now = s.At
		}
		key, lasts := figures.LeaseIn(say.Written(s))
		if key == "" {
			_, key, _ = partOf(say.Written(s))
		}
		send, _ := s.Does.(figures.Send)
		switch does := s.Does.(type) {
		case figures.Wait:
			now += does.For
		case figures.Lapse:
			now = max(now, leases[does.Key.Source])
		case figures.Send:
			if send.Retry != nil && leases[key] > now {
				now = min(leases[key], now+send.Retry.For)
			}
		}
		at := now
		if send.Every > 0 {
			at = max(now, send.Until)
		}
		if lasts > 0 && leases[key] <= at || send.Every > 0 {
			leases[key] = at + lasts
		}
		end = max(end, at)
	}
	return max(end, 50*time.Millisecond), true
}

// firstLease is the first lease that a path's text gives to the protected key.
func firstLease(f *figures.Figure, p *figures.Path) (leased bool, ms int64) {
	for _, s := range slices.Concat(p.Setup, p.Steps) {
		does, key, _ := partOf(say.Written(s))
		if _, lasts := figures.LeaseIn(say.Written(s)); lasts > 0 && does != noPart && key == f.Resource && key != "" {
			return true, lasts.Milliseconds()
		}
	}
	return false, 0
}

// Takes says how long a path takes, as a reader would: "0.8 s", "2 s".
func Takes(p *figures.Path) string {
	likely, known := expected(p)
	if !known {
		return "a few seconds"
	}
	return strconv.FormatFloat(math.Ceil(likely.Seconds()*10-0.001)/10, 'f', -1, 64) + " s"
}
