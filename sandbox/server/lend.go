package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep/sandbox"
)

// Use lends f an empty database, and takes it back when f returns or panics. It
// waits for one no longer than Options.Wait. Where the server turns out to have
// lost its scripts, or to be held up by another run's endless one, that is put
// right and f runs once more, in an empty database again.
func (s *Server) Use(ctx context.Context, f func(*sandbox.DB) error) error {
	for {
		slot, err := take(ctx, s, s.runs)
		if err != nil {
			return err
		}
		err = s.useSlot(ctx, slot, f)
		if !errors.Is(err, errForeign) {
			return err
		}
		// Somebody put keys into a database at rest. There are others.
		s.opt.Log.Warn("a database holds keys that this site did not put there; leaving it alone", "database", slot.number)
	}
}

// useSlot lends f the database of one slot.
func (s *Server) useSlot(ctx context.Context, slot *slot, f func(*sandbox.DB) error) error {
	loans := []*loan{{slot: slot}}
	defer s.giveBack(loans, func() { s.runs <- slot })
	return s.lend(ctx, loans, func(dbs []*sandbox.DB) error { return f(dbs[0]) })
}

// Lend lends f n databases at once, for an exploration that sends thousands of
// commands. Explorations have databases of their own and never starve single
// runs. Otherwise it is like Use.
func (s *Server) Lend(ctx context.Context, n int, f func([]*sandbox.DB) error) error {
	if n < 1 || n > lanes {
		return fmt.Errorf("%w: %d databases at once, of %d at most", sandbox.ErrTooMuch, n, lanes)
	}
	study, err := take(ctx, s, s.studies)
	if err != nil {
		return err
	}
	loans := make([]*loan, n)
	for i := range loans {
		loans[i] = &loan{slot: study[i]}
	}
	defer s.giveBack(loans, func() { s.studies <- study })
	return s.lend(ctx, loans, f)
}

// take waits for something at rest, a little while. The channel is the limiter.
func take[T any](ctx context.Context, s *Server, from chan T) (T, error) {
	var none T
	select {
	case taken := <-from:
		if s.life.Err() != nil {
			from <- taken // Close is waiting for it
			return none, fmt.Errorf("%w: closed", sandbox.ErrDown)
		}
		return taken, nil
	default:
	}
	timer := time.NewTimer(s.opt.Wait)
	defer timer.Stop()
	select {
	case taken := <-from:
		return taken, nil
	case <-timer.C:
		return none, fmt.Errorf("%w: no database came free in %v", sandbox.ErrBusy, s.opt.Wait)
	case <-ctx.Done():
		return none, sandbox.Ended(ctx)
	case <-s.life.Done():
		return none, fmt.Errorf("%w: closed", sandbox.ErrDown)
	}
}

// A loan is a slot while it is lent, with what must end before the next
// run may have it.
type loan struct {
	slot  *slot
	from  *Process          // that claimed it, on a server of somebody else's
	after []<-chan struct{} // each closes when the server is done with a connection
	used  bool              // it is no longer as it was when it was lent
	lost  bool              // it holds somebody else's keys
}

// lend runs f in the databases of slots, at most twice.
func (s *Server) lend(ctx context.Context, loans []*loan, f func([]*sandbox.DB) error) error {
	patience := time.Now().Add(s.opt.Wait)
	for again := false; ; again = true {
		cause, err := s.lendOnce(ctx, loans, patience, f)
		if cause == nil {
			return err
		}
		if again {
			return cause
		}
		if healed := s.heal(ctx, loans, cause); healed != nil {
			return healed
		}
		patience = time.Now().Add(s.opt.Wait)
	}
}

// lendOnce runs f in the databases of slots. cause says that what f saw must not
// count, since the server lacked its scripts or was held up by another run.
func (s *Server) lendOnce(ctx context.Context, loans []*loan, patience time.Time, f func([]*sandbox.DB) error) (cause, err error) {
	dbs := make([]*sandbox.DB, len(loans))
	for i, loan := range loans {
		if err := s.connect(ctx, loan, patience); errors.Is(err, sandbox.ErrHeld) {
			return err, err
		} else if err != nil {
			return nil, err
		}
		most := s.opt.Commands
		if loan.slot.study {
			most = 0
		}
		// A claim finds its database empty.
		dbs[i] = sandbox.NewDB(s.life, loan.slot.link, loan.from != nil && !loan.used, most)
		loan.used = true
		defer loan.end(dbs[i])
	}
	err = f(dbs)
	for _, db := range dbs {
		if cause := db.Spoilt(); cause != nil {
			return cause, err
		}
	}
	return nil, err
}

// end ends a run's use of its database. The connection is thrown away unless it
// is as good as new.
func (l *loan) end(db *sandbox.DB) {
	after, fit := db.End()
	l.after = append(l.after, after...)
	if !fit {
		l.slot.link = nil
	}
}

// connect sees to it that a slot has a live connection to the server that runs
// now. If there is none, it waits for the server to come back, until patience
// runs out.
func (s *Server) connect(ctx context.Context, loan *loan, patience time.Time) error {
	slot := loan.slot
	for {
		inst, err := s.keeper.await(ctx, patience)
		if err != nil {
			return err
		}
		if slot.link != nil && (slot.from != inst || !slot.link.Alive()) {
			slot.drop()
		}
		if slot.link == nil {
			slot.link, err = inst.Dial(ctx, s.life, slot.number, slot.study, false)
			slot.from = inst
		}
		if err == nil && inst.claim != nil && loan.from != inst {
			if err = inst.claim(ctx, slot.number); err == nil {
				loan.from = inst
			}
			loan.lost = errors.Is(err, errForeign)
		}
		if err == nil || ctx.Err() != nil || !errors.Is(err, sandbox.ErrDown) {
			return err
		}
		if !s.keeper.replaced(ctx, inst, patience) {
			return err
		}
	}
}

// heal puts right what made a run see a server that was not fit to be seen.
func (s *Server) heal(ctx context.Context, loans []*loan, cause error) error {
	inst, err := s.keeper.current()
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrDown, err)
	}
	switch {
	case errors.Is(cause, sandbox.ErrNoScript):
		if err := s.scripts.Load(ctx, inst.Admin); err != nil {
			return fmt.Errorf("%w: load the scripts again: %w", sandbox.ErrDown, err)
		}
		s.opt.Log.Warn("the server had lost its scripts; loaded them again")
	case errors.Is(cause, sandbox.ErrFull):
		if err := s.tidy(ctx, inst); err != nil {
			return fmt.Errorf("%w: %w", cause, err)
		}
		s.opt.Log.Warn("the server's memory was full; emptied the databases at rest")
	case !s.keeper.calm(ctx, s.opt.Answer):
		return cause
	}
	for _, loan := range loans {
		for _, done := range loan.after {
			select {
			case <-done:
			case <-ctx.Done():
				return sandbox.Ended(ctx)
			}
		}
		loan.after = nil
	}
	return nil
}

// tidy empties the databases at rest, which otherwise wait for their next run
// with what the last one left in them.
func (s *Server) tidy(ctx context.Context, inst *Process) error {
	if inst.claim != nil {
		return nil // there they rest empty
	}
	pipe := inst.Admin.Pipeline()
	for range cap(s.runs) {
		select {
		case slot := <-s.runs:
			defer func() { s.runs <- slot }()
			pipe.Do(ctx, "SELECT", slot.number)
			pipe.Do(ctx, inst.Flush...)
		default:
		}
	}
	pipe.Do(ctx, "SELECT", 0)
	_, err := pipe.Exec(ctx)
	return err
}

// giveBack returns databases to those at rest, at once if the server is done
// with all that was sent to it, and otherwise as soon as it is: a command of
// the old run must never reach the next one's database.
func (s *Server) giveBack(loans []*loan, back func()) {
	settled, lost := true, false
	for _, loan := range loans {
		settled = settled && len(loan.after) == 0 && loan.from == nil
		lost = lost || loan.lost
	}
	if settled && !lost {
		back()
		return
	}
	go func() {
		for _, loan := range loans {
			for _, done := range loan.after {
				<-done
			}
			if loan.from != nil {
				loan.from.release(s.life, loan.slot.number)
			}
		}
		if lost {
			s.lost <- struct{}{}
			return
		}
		back()
	}()
}
