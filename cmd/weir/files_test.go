//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const onePolicy = "version: 1\nclient: {peer: true}\nrules:\n  - {name: a, limit: 100/minute, key: address}\n"

// To open a named pipe is to wait for somebody who writes to it.
func TestANamedPipeIsRefusedAndNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "weir.yaml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(onePolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", pipe},
		{"check", link},
		{"check", file, pipe},
		{"check", "--cases", pipe, file},
		{"explain", "--policy", pipe, "/"},
		{"explain", "--policy", file, "--headers", pipe, "/"},
		{"explain", "--url", "http://127.0.0.1:1", "--credentials", pipe, "/"},
		{"convert", "nginx", pipe},
		{"convert", "ingress-nginx", file, pipe},
		{"simulate", "--policy", pipe, file},
		{"simulate", "--policy", file, "--against", pipe, file},
		{"simulate", "--policy", file, pipe},
	} {
		written := make(chan struct{})
		go func() { // a command that waits reads nothing, and the test goes on
			defer close(written)
			if w, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
				w.Close()
			}
		}()
		var out, errOut bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errOut)
		if code != exitUnusable ||
			!strings.Contains(errOut.String(), "is a named pipe: save what comes from it as a file, and name that") {
			t.Errorf("%v: %d, %q", args, code, &errOut)
		}
		r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		<-written
		r.Close()
	}
}

func TestADeviceIsRefused(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := run([]string{"check", os.DevNull}, nil, &out, &errOut); code != exitUnusable ||
		!strings.Contains(errOut.String(), "is a device: save") {
		t.Errorf("%d, %q%q", code, &out, &errOut)
	}
}

// A shell passes the output of a command as /dev/fd/63.
func TestAPipeThatTheShellHasOpenedIsRead(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	for _, form := range []string{"/dev/fd/%d", "/proc/self/fd/%d", "/dev/../dev/fd/%d", link} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		name := form
		if form != link {
			name = fmt.Sprintf(form, r.Fd())
		} else if err := os.Symlink(fmt.Sprintf("/dev/fd/%d", r.Fd()), link); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); err != nil {
			t.Log(err)
			continue
		}
		w.WriteString(onePolicy)
		w.Close()
		var out, errOut bytes.Buffer
		if code := run([]string{"check", name}, nil, &out, &errOut); code != 0 ||
			!strings.Contains(out.String(), "1 rule, no mistakes") {
			t.Errorf("%s: %d, %q%q", name, code, &out, &errOut)
		}
		r.Close()
	}
}
