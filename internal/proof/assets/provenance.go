package main

import (
	"encoding/json"
	"strings"
)

// statement is one of https://in-toto.io/Statement/v1, about files.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// provenance is that of https://slsa.dev/provenance/v1. It has no times, so that a second build has
// the same. Who publishes the files signs it, or another statement about the same digests.
type provenance struct {
	BuildDefinition struct {
		BuildType          string            `json:"buildType"`
		ExternalParameters map[string]string `json:"externalParameters"`
		InternalParameters map[string]string `json:"internalParameters"`
		Resolved           []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type resource struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

const (
	statementType  = "https://in-toto.io/Statement/v1"
	provenanceType = "https://slsa.dev/provenance/v1"
)

// statement returns the provenance of the files that are there.
func (r release) statement() ([]byte, error) {
	digests, names, err := r.digests(r.provenance(), sumsName, notesName)
	if err != nil {
		return nil, err
	}
	info, err := r.built(r.path(r.binary(platforms[0])))
	if err != nil {
		return nil, err
	}
	s := statement{Type: statementType, PredicateType: provenanceType}
	for _, name := range names {
		s.Subject = append(s.Subject, subject{name, map[string]string{"sha256": digests[name]}})
	}
	ref := "refs/tags/cmd/weir/" + r.version
	build, run := &s.Predicate.BuildDefinition, &s.Predicate.RunDetails
	build.BuildType = repository + "/blob/" + r.version + "/.ci/assets"
	build.ExternalParameters = map[string]string{"repository": repository, "ref": ref}
	build.InternalParameters = map[string]string{"go": info.GoVersion}
	for _, setting := range info.Settings {
		if strings.HasPrefix(setting.Key, "-") || setting.Key == "CGO_ENABLED" {
			build.InternalParameters[setting.Key] = setting.Value
		}
	}
	source := resource{"git+" + repository + "@" + ref, map[string]string{"gitCommit": r.commit}}
	build.Resolved = []resource{source}
	run.Builder.ID = build.BuildType
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}
