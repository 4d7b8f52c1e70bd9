package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestPlaygroundIsServedUntilItIsInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot interrupt itself")
	}
	printed, out := io.Pipe()
	var errOut bytes.Buffer
	code := make(chan int)
	go func() { code <- run([]string{"playground", "--listen", "127.0.0.1:0"}, nil, out, &errOut) }()
	line, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(line, "The playground is at "))
	answer, err := http.Get(url)
	if err != nil {
		t.Fatalf("it prints %q, and %v", line, err)
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode != 200 || !strings.Contains(string(text), "<title>weir playground</title>") || err != nil {
		t.Errorf("%s answers %s, %d bytes, %v", url, answer.Status, len(text), err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := <-code; got != exitDone || errOut.Len() > 0 {
		t.Errorf("interrupted, it ends with %d, %s", got, &errOut)
	}
}

func TestPlaygroundAtAnAddressInUseSaysHowToNameAnother(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var out, errOut bytes.Buffer
	code := run([]string{"playground", "--listen", taken.Addr().String()}, nil, &out, &errOut)
	if said := errOut.String(); code != exitUnusable || !strings.Contains(said, taken.Addr().String()) ||
		!strings.Contains(said, "such as --listen 127.0.0.1:0") {
		t.Errorf("it ends with %d, %s", code, said)
	}
}
