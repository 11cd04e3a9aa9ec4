package process_test

import (
	"testing"

	"lockstep/tests/programs"
)

func TestMain(m *testing.M) { programs.Main(m) }
