package say

import "testing"

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		Number(29998): "29,998", Number(-1200): "-1,200", Number(7): "7",
		Count(1, "command"): "1 command", Count(1270, "schedule"): "1,270 schedules",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
