package agents

import (
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/http/structured"
	"github.com/weir-go/weir/keyfuncs/agents/internal/httpsig"
)

// maxAgentField is the most bytes of Signature-Agent, all lines together.
const maxAgentField = 4 << 10

// signatureAgent returns the URL in the field Signature-Agent that a signature covers. The field is a
// Dictionary with a String for each signature, or in older drafts one String. ok is false if there is
// no such URL, or if it is not clear which one is meant.
func signatureAgent(lines []string, s *httpsig.Signature) (url string, ok bool) {
	length := 0
	for _, line := range lines {
		length += len(line)
	}
	if len(lines) == 0 || length > maxAgentField {
		return "", false
	}
	if strings.HasPrefix(strings.TrimLeft(lines[0], " "), `"`) {
		if !s.Covers("signature-agent") {
			return "", false
		}
		return stringOf(structured.Item(lines))
	}
	key, ok := memberOf(s, lines)
	if !ok {
		return "", false
	}
	found := false
	members := structured.Dictionary(lines)
	for members.Member() {
		if members.Key != key {
			continue
		}
		if found { // two members of one key
			return "", false
		}
		found, url = true, members.Value.Text
		if members.Value.Kind != structured.String || members.Parameter() {
			return "", false
		}
	}
	return url, found && !members.Malformed()
}

// memberOf returns the key of the member of Signature-Agent that is for a signature: the one that it
// covers. If it covers several, or the whole field, that is the member with its label, or the only
// one.
func memberOf(s *httpsig.Signature, lines []string) (key string, ok bool) {
	covered := slices.Collect(s.Members("signature-agent"))
	if len(covered) == 0 {
		if !s.Covers("signature-agent") {
			return "", false
		}
		for members := structured.Dictionary(lines); members.Member(); {
			covered = append(covered, members.Key)
		}
	}
	switch {
	case slices.Contains(covered, s.Label):
		return s.Label, true
	case len(covered) == 1:
		return covered[0], true
	}
	return "", false
}

// stringOf returns the content of an Item that is a String without parameters.
func stringOf(item structured.Scanner) (text string, ok bool) {
	if !item.Member() || item.Value.Kind != structured.String {
		return "", false
	}
	text = item.Value.Text
	if item.Parameter() || item.Member() || item.Malformed() {
		return "", false
	}
	return text, true
}
