package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCredentialsComeFromTheEnvironment(t *testing.T) {
	page := newTestPage(t, "../../examples/policy/weir.yaml", "Bearer s3cret")
	ask := func() (code int, said string) {
		var out, errOut bytes.Buffer
		code = run([]string{"explain", "--url", page, "--limiter", "api", "/healthz"}, nil, &out, &errOut)
		return code, out.String() + errOut.String()
	}
	t.Setenv("WEIR_CREDENTIALS", "# for the page\nAuthorization: Bearer s3cret\n")
	if code, said := ask(); code != exitDone {
		t.Errorf("exit code %d: %s", code, said)
	}
	t.Setenv("WEIR_CREDENTIALS", "s3cret")
	if code, said := ask(); code != exitUnusable || strings.Contains(said, "s3cret") ||
		!strings.Contains(said, "WEIR_CREDENTIALS") {
		t.Errorf("exit code %d: %s", code, said)
	}
	t.Setenv("WEIR_CREDENTIALS", "")
	if code, said := ask(); code != exitUnusable || !strings.Contains(said, "you are not known here") {
		t.Errorf("exit code %d: %s", code, said)
	}
}

func TestCredentialsGoUnencryptedToThisHostOnly(t *testing.T) {
	header := map[string][]string{"Authorization": {"Bearer s3cret"}}
	for address, fine := range map[string]bool{
		"http://localhost:8081": true, "127.0.0.1:8081": true, "http://[::1]:8081/limits": true,
		"http://127.9.9.9":        true,
		"https://ops.example.com": true, "http://ops.example.com": false, "http://10.0.0.1": false,
		"http://[::1%25lo]": false, "http://localhost.example.com": false,
	} {
		if _, err := newPage(address, header); (err == nil) != fine {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := newPage(address, nil); err != nil {
			t.Errorf("%s, without credentials: %v", address, err)
		}
	}
}

func TestAPageThatIsNotThereIsExplained(t *testing.T) {
	var out, errOut bytes.Buffer
	code := run([]string{"explain", "--url", "127.0.0.1:1", "/"}, nil, &out, &errOut)
	if code != exitUnusable || !strings.Contains(errOut.String(), "does not answer") ||
		!strings.Contains(errOut.String(), "check that the program runs") {
		t.Errorf("exit code %d: %s", code, &errOut)
	}
}
