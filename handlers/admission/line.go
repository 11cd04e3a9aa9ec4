package admission

import "slices"

// A line is who waits for one lane: addresses that take turns, and within each
// the visitors who do, each with tickets in order of arrival.
type line struct {
	addresses turn
	visitors  map[Visitor]*turn
	under     map[string]*turn // by address
	waiting   int
}

// A turn is an address, with its visitors in next, or a visitor, with its
// tickets. It stands in the turn above it for as long as anybody waits in it.
type turn struct {
	above   *turn
	next    []*turn // the first one's ticket is served next
	tickets []*ticket
	who     Visitor
}

func newLine() *line {
	return &line{visitors: map[Visitor]*turn{}, under: map[string]*turn{}}
}

// add puts a ticket last among its visitor's.
func (l *line) add(who Visitor, t *ticket) {
	visitor := l.visitors[who]
	if visitor == nil {
		address := l.under[who.Address]
		if address == nil {
			address = &turn{above: &l.addresses, who: Visitor{Address: who.Address}}
			l.under[who.Address] = address
			l.addresses.next = append(l.addresses.next, address)
		}
		visitor = &turn{above: address, who: who}
		l.visitors[who] = visitor
		address.next = append(address.next, visitor)
	}
	t.turn = visitor
	visitor.tickets = append(visitor.tickets, t)
	l.waiting++
}

// head is the ticket whose turn it is; nil where nobody waits.
func (l *line) head() *ticket {
	if l.waiting == 0 {
		return nil
	}
	return l.addresses.next[0].next[0].tickets[0]
}

// take serves the head: its visitor and its address then come last.
func (l *line) take() {
	t := l.head()
	address := t.turn.above
	l.addresses.rotate()
	address.rotate()
	l.remove(t)
}

func (t *turn) rotate() { t.next = append(t.next[1:], t.next[0]) }

// remove takes a ticket out, wherever it stands.
func (l *line) remove(t *ticket) {
	visitor := t.turn
	visitor.tickets = without(visitor.tickets, t)
	l.waiting--
	if len(visitor.tickets) > 0 {
		return
	}
	address := visitor.above
	delete(l.visitors, visitor.who)
	if address.next = without(address.next, visitor); len(address.next) == 0 {
		delete(l.under, address.who.Address)
		l.addresses.next = without(l.addresses.next, address)
	}
}

// without is a slice without one of its elements.
func without[T comparable](all []T, one T) []T {
	at := slices.Index(all, one)
	if at == 0 {
		return all[1:] // the usual case, and cheap
	}
	return slices.Delete(all, at, at+1)
}

// longest is the visitor with the most tickets; nil where nobody waits.
func (l *line) longest() (longest *turn) {
	for _, v := range l.visitors {
		if longest == nil || len(v.tickets) > len(longest.tickets) {
			longest = v
		}
	}
	return longest
}
