// Package agentstest signs requests as agents do, and serves their directories, for tests of
// programs that use package agents.
package agentstest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/keyfuncs/agents"
	"github.com/weir-go/weir/keyfuncs/agents/internal/httpsig"
)

// Signer signs requests for Web Bot Auth by draft-ietf-webbotauth-httpsig-protocol-01. Its methods
// are safe for concurrent use.
type Signer struct {
	// Key signs. Required.
	Key ed25519.PrivateKey

	// Directory is the URL that the signer sends in Signature-Agent, such as https://bot.example.
	// Required.
	Directory string

	// Components are what it covers besides @authority and its Signature-Agent, such as "@method".
	Components []string

	// Lifetime is how long a signature is good. 0: a minute.
	Lifetime time.Duration
}

// New returns a signer with a new key.
func New(directory string) *Signer {
	_, key, _ := ed25519.GenerateKey(nil) // cannot fail
	return &Signer{Key: key, Directory: directory}
}

// KeySet returns the JSON Web Key Set of the signer's directory, for Keys of [agents.Directory].
func (s *Signer) KeySet() []byte { return agents.KeySet(s.Key.Public().(ed25519.PublicKey)) }

// Sign signs r as of now, with a nonce of its own: it sets Signature-Agent, Signature-Input and
// Signature, and Host if that is missing. r may be for a client or for a handler. Sign panics if r
// lacks what a component of the signer is.
func (s *Signer) Sign(r *http.Request) {
	if r.Host == "" {
		r.Host = r.URL.Host
	}
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	scheme := r.URL.Scheme
	if scheme == "" {
		scheme = "https"
	}
	var nonce [64]byte
	rand.Read(nonce[:])
	lifetime := s.Lifetime
	if lifetime == 0 {
		lifetime = time.Minute
	}
	now := time.Now()
	var input strings.Builder
	input.WriteString(`sig1=("@authority" "signature-agent";key="sig1"`)
	for _, name := range s.Components {
		input.WriteString(" " + strconv.Quote(name))
	}
	fmt.Fprintf(&input, `);created=%d;expires=%d;keyid="%s";alg="ed25519";nonce="%s";tag="web-bot-auth"`,
		now.Unix(), now.Add(lifetime).Unix(), agents.Thumbprint(s.Key.Public().(ed25519.PublicKey)),
		base64.StdEncoding.EncodeToString(nonce[:]))
	r.Header.Set("Signature-Agent", `sig1="`+s.Directory+`"`)
	r.Header.Set("Signature-Input", input.String())
	r.Header.Set("Signature", signature(make([]byte, ed25519.SignatureSize)))
	found, err := httpsig.Find(r.Header, "web-bot-auth")
	if err != nil || len(found) != 1 {
		panic(fmt.Sprintf("agentstest: Signer.Sign: Components has no name of a component: %q", s.Components))
	}
	base, err := found[0].AppendBase(nil, httpsig.Message{Request: r, Scheme: scheme})
	if err != nil {
		panic(fmt.Sprintf("agentstest: Signer.Sign: the request lacks a component of %q", s.Components))
	}
	r.Header.Set("Signature", signature(ed25519.Sign(s.Key, base)))
}

func signature(value []byte) string { return "sig1=:" + base64.StdEncoding.EncodeToString(value) + ":" }

// Transport returns a transport for [agents.Config] that serves the directories of signers without a
// network: each at the URL that it sends, or at the well-known path of its origin. Other URLs are
// answered 404.
func Transport(signers ...*Signer) http.RoundTripper { return transport(signers) }

type transport []*Signer

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	const wellKnown = "/.well-known/http-message-signatures-directory"
	status, body := http.StatusNotFound, []byte("no such directory\n")
	for _, s := range t {
		if asked := r.URL.String(); asked == s.Directory || asked == strings.TrimSuffix(s.Directory, "/")+wellKnown {
			status, body = http.StatusOK, s.KeySet()
		}
	}
	return &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{
			"Content-Type":  {"application/http-message-signatures-directory+json"},
			"Cache-Control": {"max-age=3600"},
		},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}
