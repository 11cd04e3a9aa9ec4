package card

import (
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"

	"lockstep/figures"
)

// TestSequence draws a run in which every kind of entry stands: the server in
// the middle, commands shortened, replies whole, setup folded, events in rows.
func TestSequence(t *testing.T) {
	f := labelled("f", "Figure", "resource:lock", []string{"blind DEL", "other", "third"})
	r := sample(f, f.Paths[0], figures.Broken, valkey)
	doc := render(t, Verdict(f, r))
	seq := doc.Find(".ran-body > .seq")
	if seq.Length() != 1 || doc.Find(".ran-body .lanes").Length() != 0 {
		t.Fatalf("%d sequences", seq.Length())
	}
	for label, class := range map[string]string{"client A": "from-1", "client B": "from-2", "client C": "from-4", "Valkey 8.0.1": "from-3"} {
		head := seq.Find(".seq-head").FilterFunction(func(_ int, s *goquery.Selection) bool { return wordsOf(s) == label })
		if !head.HasClass(class) {
			t.Errorf("%s stands in %q, not %s", label, head.AttrOr("class", ""), class)
		}
	}
	if got := seq.Find("details.seq-setup .seq-row").Length(); got != 2 {
		t.Errorf("%d rows of setup, want 2", got)
	}
	rows := seq.Find(".seq-run > .seq-row")
	if rows.Length() != 7 {
		t.Fatalf("%d rows, want 7", rows.Length())
	}
	for i, want := range []struct{ class, text string }{
		{"from-2 to-3", "SET resource:lock xyz NX PX 30000 OK"},
		{"from-3 to-4", "SET resource:lock ccc NX PX 30000 nil"},
		{"from-3 to-4", "release resource:lock abc 1"},
		{"seq-event", "waited 20 ms"},
		{"seq-crash from-2 to-2", "crashed: its connection was cut"},
		{"from-1 to-3", "emq_complete emq:{q}:active emq:{q}:job:JOB1 JOB1 1 EMQSTALE the claim is no longer the latest"},
		{"from-1 to-3", "emq_claim emq:{q}:pending emq:{q}:active emq:{q}:job: 30000 [JOB1, payload, 2, [nested, nil]]"},
	} {
		what := rows.Eq(i).Find(".seq-exchange, .seq-event, .seq-own")
		if !strings.Contains(what.AttrOr("class", ""), want.class) || wordsOf(what) != want.text {
			t.Errorf("row %d is %q in %q, want %q in %q", i+1, wordsOf(what), what.AttrOr("class", ""), want.text, want.class)
		}
	}
	if got := seq.Find(".seq-together").Length(); got != 1 {
		t.Errorf("one race is named %d times", got)
	}
	if rows.Eq(4).Find(".seq-gone").Length() != 0 || rows.Eq(5).Find(".seq-gone.from-2").Length() != 1 {
		t.Error("B's lane doesn't end where B crashed")
	}
	// The picture is hidden from those who can't see it; what is to be operated isn't.
	if seq.Find("[aria-hidden=true] :is(a, button, input, summary)").Length() != 0 || seq.Find(".seq-row").FilterFunction(func(_ int, s *goquery.Selection) bool {
		return s.Closest("[aria-hidden=true]").Length() == 0
	}).Length() != 0 {
		t.Error("rows are to be hidden from assistive technology, and nothing that takes the focus")
	}
}

// TestSequenceOfNothing: what a chart or lanes show, and what is too long, has
// no sequence.
func TestSequenceOfNothing(t *testing.T) {
	f := labelled("f", "Figure", "resource:lock", []string{"blind DEL"})
	r := sample(f, f.Paths[0], figures.Broken, valkey)
	for range maxEntries {
		r.Trace = append(r.Trace, r.Trace[2])
	}
	if render(t, Verdict(f, r)).Find(".seq").Length() != 0 {
		t.Error("a run of 49 entries has a sequence")
	}
	f = scheduling("map", 3, "resource:lock", "exclusion")
	if render(t, Verdict(f, sampleMap(f, 44, valkey))).Find(".seq").Length() != 0 {
		t.Error("an exploration has a sequence")
	}
}
