package sandbox

// A Kind says why a script that is not the course's own didn't run to its end.
type Kind string

// The kinds. OfScript is an error of the script's own, with its line; the others
// are limits, and OfCrash is a fault of the server's that the script met.
const (
	OfScript Kind = "script"
	OfTime   Kind = "time"
	OfMemory Kind = "memory"
	OfReply  Kind = "reply"
	OfCrash  Kind = "crash"
)

// Trouble says that such a script didn't run to its end. Nothing in it is of the
// host.
type Trouble struct {
	Kind Kind   `json:"kind"`
	Name string `json:"-"`              // the script's, where it is known
	Line int    `json:"line,omitempty"` // of the script's text, from 1; 0 where it isn't known
	Text string `json:"text"`
}

func (t *Trouble) Error() string { return string(t.Kind) + ": " + t.Text }
