package agentstest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/agentstest"
)

func ExampleSigner() {
	signer := agentstest.New("https://bot.example")
	signer.Components = []string{"@method", "@path"}
	verifier := agents.MustNew(agents.Config{
		Authorities: []string{"shop.example"},
		Directories: []agents.Directory{{URL: "https://bot.example", Keys: signer.KeySet()}},
	})

	r := httptest.NewRequest("GET", "https://shop.example/items", nil)
	signer.Sign(r)
	fmt.Println(verifier.Key(r))

	r.Method = "DELETE"
	fmt.Println(verifier.Key(r))
	// Output:
	// bot.example <nil>
	//  core: the request has no such key
}

func ExampleNew() {
	signer := agentstest.New("https://bot.example")
	fmt.Println(signer.Directory)
	// Output: https://bot.example
}

func ExampleSigner_Sign() {
	signer := agentstest.New("https://bot.example")
	r, err := http.NewRequest("GET", "https://shop.example/", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer.Sign(r)
	fmt.Println(r.Header.Get("Signature-Agent"))
	input, _, _ := strings.Cut(r.Header.Get("Signature-Input"), ";created")
	fmt.Println(input)
	// Output:
	// sig1="https://bot.example"
	// sig1=("@authority" "signature-agent";key="sig1")
}

func ExampleSigner_KeySet() {
	signer := agentstest.New("https://bot.example")
	_, err := agents.New(agents.Config{
		Authorities: []string{"shop.example"},
		Directories: []agents.Directory{{URL: signer.Directory, Keys: signer.KeySet()}},
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleTransport() {
	signer := agentstest.New("https://bot.example")
	verifier := agents.MustNew(agents.Config{
		Authorities: []string{"shop.example"},
		Directories: []agents.Directory{{URL: "https://bot.example"}}, // fetched
		Transport:   agentstest.Transport(signer),
		OnFetch: func(url string, keys int, err error) {
			fmt.Println(keys, "key at", url)
		},
	})
	r := httptest.NewRequest("GET", "https://shop.example/", nil)
	signer.Sign(r)
	fmt.Println(verifier.Key(r))
	// Unordered output:
	// 1 key at https://bot.example/.well-known/http-message-signatures-directory
	// bot.example <nil>
}
