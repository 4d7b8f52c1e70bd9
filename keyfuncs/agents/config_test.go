package agents_test

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

func TestEachMistakeOfAConfigIsReported(t *testing.T) {
	bot := agentstest.New("https://bot.example")
	private := `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bt","d":"AA"}]}`
	_, err := agents.New(agents.Config{
		Authorities: []string{"Shop.example", "https://shop.example", "shop.example:443", "", "*.", "shop.*"},
		Scheme:      "ftp",
		Components:  []string{"Date", "@status", ""},
		MaxLifetime: -1,
		MaxSkew:     25 * time.Hour,
		Unlisted:    -1,
		Directories: []agents.Directory{
			{}, {URL: "http://bot.example"}, {URL: "https://bot.example"}, {URL: "https://BOT.example:443/"},
			{URL: "https://a.example", Name: "a b"}, {URL: "https://b.example", Name: "unlisted:b.example"},
			{URL: "https://c.example", Name: strings.Repeat("c", 129)},
			{URL: "https://d.example", Keys: []byte("{}")}, {URL: "https://e.example", Keys: []byte(`{"keys":[]}`)},
			{URL: "https://f.example", Keys: []byte(private)},
			{URL: "https://g.example", Keys: append(bot.KeySet(), 'x')},
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	for _, want := range []string{
		`agents: Authorities[0]: must be a host in lower case`, `(got "Shop.example")`, `Authorities[1]`, `Authorities[2]`,
		`Authorities[3]`, `Authorities[4]`, `Authorities[5]`, `agents: Scheme: must be "https" or "http" (got "ftp")`,
		`Components[0]`, `Components[1]`, `Components[2]`, `MaxLifetime: must be positive`,
		`MaxSkew: must be at most 24 hours`,
		`Unlisted: must be 0 to 100000 (got -1)`, `Directories[0]: URL: it must be https://`, `Directories[1]: URL`,
		`Directories[3]: URL: is in the list twice`, `Directories[4]: Name`, `Directories[5]: Name`, `Directories[6]: Name`,
		`Directories[7]: Keys: not a JSON Web Key Set`, `Directories[8]: Keys: there is no Ed25519 key`,
		`Directories[9]: Keys: key 1: it has its private half`, `Directories[10]: Keys: not a JSON Web Key Set`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "agents: ") {
			t.Errorf("a line does not name the package: %s", line)
		}
	}
	if _, err := agents.New(agents.Config{}); err == nil || !strings.Contains(err.Error(), "Directories is required") ||
		!strings.Contains(err.Error(), "Authorities is required") {
		t.Errorf("got %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("MustNew does not panic")
		}
	}()
	agents.MustNew(agents.Config{})
}

func TestAVerifierKeepsACopyOfItsConfig(t *testing.T) {
	bot := agentstest.New("https://bot.example")
	config := agents.Config{
		Authorities: []string{"shop.example"}, Components: []string{"@method"},
		Directories: []agents.Directory{{URL: bot.Directory, Keys: bot.KeySet()}},
	}
	v := agents.MustNew(config)
	config.Authorities[0], config.Components[0], config.Directories[0].URL = "", "", ""
	bot.Components = []string{"@method"}
	wantAgent(t, v, signed(bot), "bot.example")
}

func TestASetHasKeysOfTheRightSizeAlone(t *testing.T) {
	if got := string(agents.KeySet()); got != `{"keys":[]}` {
		t.Errorf("got %s", got)
	}
	if got := string(agents.KeySet(ed25519.PublicKey{1, 2})); got != `{"keys":[]}` {
		t.Errorf("got %s", got)
	}
}
