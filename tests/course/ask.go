package course

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// An Answer is what came back for one request.
type Answer struct {
	Code   int
	Header http.Header
	Body   string
}

// JSON and HTML are what a visitor may ask for.
const (
	JSON = "application/json"
	HTML = "text/html"
)

// Ask asks for an address.
func Ask(client *http.Client, url, accept string) (Answer, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(body)}, err
}

// Fetch is Ask for those who expect an answer.
func Fetch(t testing.TB, url, accept string) Answer {
	t.Helper()
	a, err := Ask(http.DefaultClient, url, accept)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Client gives a test connections of its own, which end with it.
func Client(t testing.TB, connections int) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// Eventually waits for something that takes its time.
func Eventually(t testing.TB, most time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(most)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", most, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
