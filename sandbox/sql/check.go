package sql

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"lockstep/sandbox"
)

// longest is how long a statement may be, in bytes.
const longest = 4096

// statements are the statements that a figure may send.
var statements = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE TABLE", "BEGIN", "COMMIT", "ROLLBACK"}

// functions are the functions that a figure may call. What is missing may
// reach files, settings, sessions or time.
var functions = wordSet(`
	COUNT SUM MIN MAX AVG TOTAL COALESCE IFNULL NULLIF CAST ABS ROUND SIGN MOD
	LENGTH LOWER UPPER TRIM LTRIM RTRIM SUBSTR SUBSTRING
	ROW_NUMBER RANK LAG LEAD`)

// before are the words that an opening bracket may follow without being
// called: what the grammar puts there, and types with a length.
var before = wordSet(`
	ALL AND ANY AS BETWEEN BY CASE CHECK CONFLICT DEFAULT DISTINCT ELSE EXCEPT EXISTS FILTER FROM HAVING IN INSERT
	INTERSECT IS JOIN KEY LIKE LIMIT NOT OFFSET ON OR OVER REFERENCES RETURNING SELECT SET SOME THEN UNION UNIQUE
	USING VALUES WHEN WHERE
	BIT CHAR CHARACTER DECIMAL FLOAT INT INTEGER NUMERIC TIME TIMESTAMP TIMESTAMPTZ VARCHAR VARYING`)

// named are the words that are followed by the name of a table or an alias,
// which may have a bracket behind it.
var named = wordSet(`INTO TABLE REFERENCES AS`)

// transactions are the words that may follow BEGIN, COMMIT and ROLLBACK.
var transactions = map[string]map[string]bool{
	"BEGIN": wordSet(`TRANSACTION WORK DEFERRED IMMEDIATE EXCLUSIVE
		ISOLATION LEVEL SERIALIZABLE REPEATABLE READ COMMITTED UNCOMMITTED ONLY WRITE`),
	"COMMIT":   wordSet(`TRANSACTION WORK`),
	"ROLLBACK": wordSet(`TRANSACTION WORK`),
}

// why says why words that an author may well reach for are missing, and what
// to write instead.
var why = map[string]string{
	"WITH":       "write a subquery",
	"START":      "write BEGIN",
	"END":        "write COMMIT",
	"ABORT":      "write ROLLBACK",
	"SAVEPOINT":  "a figure's transactions have one level: BEGIN, COMMIT, ROLLBACK",
	"DROP":       "every run starts in an empty database",
	"TRUNCATE":   "every run starts in an empty database",
	"ALTER":      "create the table as it should be",
	"ATTACH":     "a run has one database, its own",
	"DETACH":     "a run has one database, its own",
	"COPY":       "it reaches files; write INSERT",
	"PRAGMA":     "it changes how the store works",
	"SET":        "it changes how the store works; BEGIN takes an isolation level",
	"RESET":      "it changes how the store works",
	"DO":         "a figure runs no procedures",
	"CALL":       "a figure runs no procedures",
	"EXPLAIN":    "plans differ from store to store",
	"LOCK":       "a row is locked by the UPDATE that changes it",
	"INTO":       "write CREATE TABLE … AS SELECT …",
	"TEMP":       "a table of the run is gone after it anyway",
	"TEMPORARY":  "a table of the run is gone after it anyway",
	"UNLOGGED":   "write CREATE TABLE",
	"VIRTUAL":    "write CREATE TABLE",
	"NOW":        "the store's clock is not the run's; write the time as a number",
	"PG_SLEEP":   "wait: 20ms waits",
	"CHANGES":    "the reply of a write is the number of rows that it changed",
	"RANDOM":     "a figure says the same each time",
	"SET_CONFIG": "it changes how the store works",
}

// Check tells whether a figure may send a statement to its SQL database, as a
// *sandbox.CommandError.
func Check(statement string) error {
	_, err := parse(statement)
	return err
}

// A parsed statement is what has to be known of an allowed statement.
type parsed struct {
	text string // without the semicolon at its end
	verb string // the first word, or CREATE TABLE
}

// writes tells whether the statement's reply is a number of rows, unless it
// returns them.
func (s parsed) writes() bool {
	return s.verb == "INSERT" || s.verb == "UPDATE" || s.verb == "DELETE"
}

// parse reads a statement as far as it must be known to be allowed. It
// accepts no text that two stores could cut into words differently.
func parse(statement string) (parsed, error) {
	var s parsed
	if len(statement) > longest {
		return s, &sandbox.CommandError{Message: fmt.Sprintf("the statement has %d bytes, of %d at most", len(statement), longest)}
	}
	tokens, err := scan(statement)
	if err != nil {
		return s, err
	}
	s.text = strings.TrimSpace(statement)
	if n := len(tokens); n > 0 && tokens[n-1].text == ";" {
		tokens = tokens[:n-1]
		s.text = strings.TrimSpace(strings.TrimSuffix(s.text, ";"))
	}
	if len(tokens) == 0 {
		return s, &sandbox.CommandError{Message: "the statement is empty"}
	}
	s.verb = tokens[0].word()
	switch {
	case s.verb == "CREATE" && len(tokens) > 1:
		if second := tokens[1].word(); second != "TABLE" {
			return s, refused("CREATE "+cmp.Or(second, tokens[1].text), cmp.Or(why[second], "only tables"))
		}
		s.verb = "CREATE TABLE"
	case !slices.Contains(statements, s.verb):
		return s, refused(cmp.Or(s.verb, tokens[0].text), cmp.Or(why[s.verb], "allowed: "+strings.Join(statements, ", ")))
	}
	if words := transactions[s.verb]; words != nil {
		for _, t := range tokens[1:] {
			if !words[t.word()] {
				return s, refused(s.verb+" … "+cmp.Or(t.word(), t.text), why["SAVEPOINT"])
			}
		}
		return s, nil
	}
	for i := range tokens {
		if err := s.allow(tokens, i); err != nil {
			return s, err
		}
	}
	return s, nil
}

// allow checks one token where it stands.
func (s parsed) allow(tokens []token, i int) error {
	t := tokens[i]
	switch word := t.word(); {
	case t.text == ";":
		return &sandbox.CommandError{Message: "more than one statement", Hint: "a step sends one"}
	case word == "WITH", word == "INTO" && s.verb != "INSERT":
		return refused(s.verb+" … "+word, why[word])
	}
	if !t.isName() {
		return nil
	}
	name := strings.ToUpper(t.name)
	for _, prefix := range []string{"PG_", "SQLITE_", "PRAGMA_", "INFORMATION_SCHEMA", strings.ToUpper(schemaPrefix)} {
		if strings.HasPrefix(name, prefix) && !functions[name] {
			return refused("the name "+t.name, cmp.Or(why[name], "it belongs to the store"))
		}
	}
	if i+1 == len(tokens) || tokens[i+1].text != "(" || functions[name] && !after(tokens, i, ".") ||
		before[t.word()] || called(tokens, i) {
		return nil
	}
	return refused("the function "+t.name, cmp.Or(why[name], sandbox.Alike(name, maps.Keys(functions))))
}

// called tells whether the name at i, which has a bracket behind it, is that of
// a table or an alias.
func called(tokens []token, i int) bool {
	if i == 0 {
		return false
	}
	before := tokens[i-1].word()
	return named[before] ||
		before == "EXISTS" && i > 3 && tokens[i-2].word() == "NOT" && tokens[i-3].word() == "IF"
}

// after tells whether text stands before the token at i.
func after(tokens []token, i int, text string) bool { return i > 0 && tokens[i-1].text == text }

func refused(what, hint string) error {
	return &sandbox.CommandError{Message: what + " is not allowed in a figure", Hint: hint}
}

// A token is a word, a quoted name, a string, a number or a sign.
type token struct {
	kind byte // w, n, ', 0 or s
	text string
	name string // of a word or a quoted name
}

// word gives a word that is not quoted, in capitals, or "".
func (t token) word() string {
	if t.kind != 'w' {
		return ""
	}
	return strings.ToUpper(t.name)
}

func (t token) isName() bool { return t.kind == 'w' || t.kind == 'n' }

// scan cuts a statement into tokens.
func scan(statement string) ([]token, error) {
	if !utf8.ValidString(statement) {
		return nil, &sandbox.CommandError{Message: "the statement is not UTF-8"}
	}
	var tokens []token
	for rest := statement; ; {
		rest = strings.TrimLeft(rest, " \t\r\n")
		if rest == "" {
			return tokens, nil
		}
		t, err := next(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[len(t.text):]
		if t.kind == 'w' && rest != "" && (rest[0] == '\'' || rest[0] == '"') {
			return nil, &sandbox.CommandError{Message: "a word touches a quote: " + t.text + rest[:1], Hint: "write 'text', without a prefix"}
		}
		if t.kind == '0' && rest != "" && isLetter(rest[0]) {
			return nil, &sandbox.CommandError{Message: "a number touches a letter: " + t.text + rest[:1]}
		}
		if strings.EqualFold(t.text, "u") && strings.HasPrefix(rest, "&") {
			return nil, &sandbox.CommandError{Message: "an escape is not allowed in a figure: " + t.text + "&", Hint: "write the character itself"}
		}
		tokens = append(tokens, t)
	}
}

// next reads the token at the start of a text.
func next(rest string) (token, error) {
	switch c := rest[0]; {
	case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "/*"):
		return token{}, &sandbox.CommandError{Message: "a comment in a statement", Hint: "note: says what a step is for"}
	case c == '\'', c == '"':
		end := closing(rest)
		if end < 0 {
			return token{}, &sandbox.CommandError{Message: "a quote is not closed", Hint: "within quotes, write the quote twice"}
		}
		if c == '\'' {
			return token{kind: '\'', text: rest[:end]}, nil
		}
		name := strings.ReplaceAll(rest[1:end-1], `""`, `"`)
		return token{kind: 'n', text: rest[:end], name: name}, nil
	case isLetter(c):
		end := 1
		for end < len(rest) && (isLetter(rest[end]) || isDigit(rest[end])) {
			end++
		}
		return token{kind: 'w', text: rest[:end], name: rest[:end]}, nil
	case isDigit(c):
		end := 1
		for end < len(rest) && (isDigit(rest[end]) || rest[end] == '.') {
			end++
		}
		return token{kind: '0', text: rest[:end]}, nil
	case strings.HasPrefix(rest, "::"):
		return token{kind: 's', text: "::"}, nil
	case strings.IndexByte("()+-*/%<>=!|&~,.;", c) >= 0:
		return token{kind: 's', text: rest[:1]}, nil
	}
	_, size := utf8.DecodeRuneInString(rest)
	hint := ""
	switch rest[0] {
	case '$', '?', ':', '@':
		hint = "a statement has no parameters; {{ expr }} stands for a value"
	case '`', '[':
		hint = `a name that needs it is quoted with "`
	}
	return token{}, &sandbox.CommandError{Message: fmt.Sprintf("%q is not allowed in a statement", rest[:size]), Hint: hint}
}

// closing finds the end of the quoted text that a text starts with, or -1.
func closing(rest string) int {
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == 0:
			return -1
		case rest[i] != rest[0]:
		case i+1 < len(rest) && rest[i+1] == rest[0]:
			i++
		default:
			return i + 1
		}
	}
	return -1
}

// isLetter tells whether a byte may start a name. Letters beyond ASCII may.
func isLetter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= utf8.RuneSelf
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}
