package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/keyfuncs"
)

func newDigest() *cobra.Command {
	return withExitStatus(&cobra.Command{
		Use:   "digest",
		Short: "Print the digest of a secret, for overrides",
		Long: `digest reads an API key, a bearer token or the value of a cookie from standard input, and
prints the key by which rules count it. A policy file has the digest, never the secret:

  overrides:
    - {for: {api-key X-API-Key: 2bb80d537b1da3e38bd30361aa855686}, limit: 1000/minute}

Blanks around the secret, and the end of the line, do not count, as in header fields. Of
"Authorization: Bearer abc" the secret is abc. A digest hides a random secret. Whoever
sees the digest of one that can be guessed finds the secret by trying.`,
		Example: `  weir digest < key.txt
  printf %s "$API_KEY" | weir digest
  pass show shop/api-key | weir digest`,
		Args:              noSecret,
		ValidArgsFunction: noFiles,
		RunE: func(c *cobra.Command, _ []string) error {
			if isTerminal(c.InOrStdin()) {
				fmt.Fprintln(c.ErrOrStderr(), "weir: type or paste the secret, then Enter and "+
					"Ctrl-D. It is shown as you type.")
			}
			secret, err := readSecret(c.InOrStdin())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), keyfuncs.Digest(secret))
			return err
		},
	}, `  0  the digest was printed
  2  there was no secret, or more than one line`)
}

// noSecret rejects arguments without printing them: they may be secrets.
func noSecret(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return errors.New("others see command lines, so the secret comes on standard input: " +
			"weir digest < key.txt")
	}
	return nil
}

// maxSecret is larger than any header field.
const maxSecret = 1 << 20

// readSecret reads one secret. Its errors do not contain the secret.
func readSecret(in io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxSecret+1))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	switch {
	case secret == "":
		return "",
			errors.New("there is no secret on standard input: pipe one in, as in: weir digest < " +
				"key.txt")
	case strings.ContainsAny(secret, "\r\n"):
		return "", errors.New("there is more than one line on standard input: one secret at a time")
	case strings.HasPrefix(strings.ToLower(secret), "bearer ") ||
		strings.HasPrefix(strings.ToLower(secret), "authorization:"):
		return "",
			errors.New("the digest is of the token alone: leave out Authorization and Bearer")
	case len(text) > maxSecret:
		return "", fmt.Errorf("a secret has at most %d bytes", maxSecret)
	}
	return secret, nil
}
