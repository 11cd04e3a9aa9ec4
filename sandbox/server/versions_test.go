package server

import (
	"testing"

	"lockstep/sandbox"
)

func TestSince(t *testing.T) {
	for command, want := range map[string]string{
		"DELIFEQ": "Valkey 9.0", "set  ifeq": "Valkey 8.1", "DELEX": "Redis 8.4", "HEXPIRE": "Valkey 9.0",
		"SET NX": "", "GET": "", "NOPE": "", "": "",
	} {
		if got := Since(command); got != want {
			t.Errorf("Since(%q) = %q, want %q", command, got, want)
		}
	}
}

func TestFactsHas(t *testing.T) {
	commands := map[string]bool{"SET": true, "GET": true, "OBJECT|ENCODING": true, "DELIFEQ": true}
	tests := []struct {
		engine  sandbox.Engine
		command string
		want    bool
	}{
		{sandbox.Engine{Name: "valkey", Version: "8.0.1"}, "SET IFEQ", false},
		{sandbox.Engine{Name: "valkey", Version: "8.1.0"}, "SET IFEQ", true},
		{sandbox.Engine{Name: "valkey", Version: "10.0.0"}, "SET IFEQ", true},
		{sandbox.Engine{Name: "redis", Version: "8.2.1"}, "SET IFEQ", false},
		{sandbox.Engine{Name: "redis", Version: "8.4"}, "set ifeq", true},
		{sandbox.Engine{Name: "valkey", Version: "8.0.1"}, "SET PX", true},
		{sandbox.Engine{Name: "valkey", Version: "8.0.1"}, "SET NOSUCH", false},
		{sandbox.Engine{Name: "valkey", Version: "8.0.1"}, "OBJECT ENCODING", true},
		{sandbox.Engine{Name: "valkey", Version: "8.0.1"}, "DELIFEQ", true},
		{sandbox.Engine{Name: "valkey", Version: "8.0.1"}, "DELEX", false},
		{sandbox.Engine{Name: "valkey", Version: "8.0.1"}, "", false},
		{sandbox.Engine{Name: "valkey", Version: "8.0.1"}, "SET IFEQ NX", false},
		{sandbox.Engine{Name: "valkey", Version: ""}, "SET IFEQ", false},
		{sandbox.Engine{Name: "miniredis", Version: "2.40.0", Mode: sandbox.Embedded}, "SET IFEQ", false},
		{sandbox.Engine{Name: "miniredis", Version: "2.40.0", Mode: sandbox.Embedded}, "SET NX", true},
	}
	for _, test := range tests {
		f := &facts{engine: test.engine, commands: commands}
		if got := f.has(test.command); got != test.want {
			t.Errorf("%s %s has(%q) = %v, want %v", test.engine.Name, test.engine.Version, test.command, got, test.want)
		}
	}
}
