package main

import (
	"fmt"
	"regexp"
	"strings"
)

// longest is how many bytes GitHub takes as the notes of a release.
const longest = 125_000

// link is the target of a link in Markdown.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// notesOf returns the section of a version in the changelog, with links that lead to the files of
// that version. What is tried before a release, such as v1.2.3-rc.1, is still under Unreleased.
func notesOf(changelog, version string) (string, error) {
	number := strings.TrimPrefix(version, "v")
	heads := []string{"## [" + number + "]"}
	if strings.Contains(number, "-") {
		heads = append(heads, "## [Unreleased]")
	}
	for _, head := range heads {
		_, section, found := strings.Cut("\n"+changelog, "\n"+head)
		if !found {
			continue
		}
		_, section, _ = strings.Cut(section, "\n") // the rest of the heading
		for _, next := range []string{"\n## ", "\n[Unreleased]: "} {
			section, _, _ = strings.Cut("\n"+section, next)
		}
		section = strings.TrimSpace(section)
		if section == "" {
			return "", fmt.Errorf("CHANGELOG.md says nothing below %s: write what changes", head)
		}
		section = link.ReplaceAllStringFunc(section, func(l string) string {
			target := link.FindStringSubmatch(l)[1]
			if strings.Contains(target, ":") || strings.HasPrefix(target, "#") {
				return l
			}
			return "](" + repository + "/blob/" + version + "/" + target + ")"
		})
		if len(section) > longest {
			return "", fmt.Errorf("the notes of %s have %d bytes, and GitHub takes %d: shorten its section "+
				"in CHANGELOG.md", version, len(section), longest)
		}
		return section + "\n", nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no heading %s: .ci/release writes it", heads[0])
}
