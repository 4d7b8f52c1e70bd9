//go:build unix

package serve

import (
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestSystemdIsToldWhenTheServiceIsReadyAndEnds(t *testing.T) {
	for _, address := range []string{filepath.Join(t.TempDir(), "notify"), "@" + t.Name()} {
		if address[0] == '@' && runtime.GOOS != "linux" { // others have no abstract names
			continue
		}
		systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { systemd.Close() })
		want := func(state string) {
			t.Helper()
			var text [64]byte
			n, err := systemd.Read(text[:])
			if got := string(text[:n]); got != state || err != nil {
				t.Errorf("%q, %v, want %q", got, err, state)
			}
		}
		s := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, Notify: address})
		want("READY=1")
		if status, _ := ask(t, http.DefaultClient, "http://"+s.check+"/check"); status != 204 {
			t.Errorf("ready, and answers %d", status)
		}
		s.stop()
		want("STOPPING=1")
		if err := s.end(); err != nil {
			t.Error(err)
		}
	}
}

func TestAServiceGoesOnWithoutSystemd(t *testing.T) {
	s := start(t, Config{Paths: []string{fileOf(t, "weir.yaml", rules)}, Notify: filepath.Join(t.TempDir(), "none")})
	if err := s.end(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(s.log.String(), "systemd cannot be told") {
		t.Errorf("nothing says so:\n%s", s.log)
	}
}
