// Package lua holds the scripts that the course shows and runs.
package lua

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed *.lua
var files embed.FS

// FS returns the course's scripts as they stand in this folder.
func FS() fs.FS { return files }

// A Script is one file of this folder. Valkey knows it by its SHA1.
type Script struct {
	Name   string // the file's name, "release.lua"
	Source string // its text, lines ended by LF
	SHA1   string // 40 hexadecimal digits, as SCRIPT LOAD answers them
}

// Scripts are the scripts by name.
type Scripts map[string]Script

// Load reads every .lua file at the top of fsys. Line ends become LF first: a
// checkout with CRLF would give a script another SHA1 than its listing shows.
func Load(fsys fs.FS) (Scripts, error) {
	names, err := fs.Glob(fsys, "*.lua")
	if err != nil {
		return nil, fmt.Errorf("list scripts: %w", err)
	}
	scripts := make(Scripts, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read script: %w", err)
		}
		source := strings.ReplaceAll(string(text), "\r\n", "\n")
		sum := sha1.Sum([]byte(source))
		scripts[name] = Script{Name: name, Source: source, SHA1: hex.EncodeToString(sum[:])}
	}
	return scripts, nil
}
