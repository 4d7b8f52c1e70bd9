package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"
)

// Media types of https://github.com/opencontainers/image-spec, version 1.1.
const (
	ofIndex    = "application/vnd.oci.image.index.v1+json"
	ofManifest = "application/vnd.oci.image.manifest.v1+json"
	ofConfig   = "application/vnd.oci.image.config.v1+json"
	ofLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// imageName is the name under which the image is published.
const imageName = "ghcr.io/weir-go/weir"

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *ociPlatform      `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type ociPlatform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type imageConfig struct {
	ociPlatform
	Config containerConfig `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

type containerConfig struct {
	User         string              `json:"User"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	Labels       map[string]string   `json:"Labels"`
}

// layer is the one layer of an image for a processor.
type layer struct {
	arch   string
	binary []byte
}

// imageOf returns an archive in the layout of OCI, of an image for several processors. Each has one
// static binary, as in cmd/weir/Containerfile. The same binaries give the same archive, to the byte.
func imageOf(layers []layer, version string) ([]byte, error) {
	var files []file
	blob := func(mediaType string, data []byte) descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		files = append(files, file{"blobs/sha256/" + sum, 0o644, data})
		return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
	}
	all := index{SchemaVersion: 2, MediaType: ofIndex}
	for _, l := range layers {
		unpacked, err := pack([]file{{"weir", 0o755, l.binary}})
		if err != nil {
			return nil, err
		}
		packed, err := compress(unpacked)
		if err != nil {
			return nil, err
		}
		config := configOf(l, version, unpacked)
		one := blob(ofManifest, encode(manifest{
			SchemaVersion: 2, MediaType: ofManifest,
			Config: blob(ofConfig, encode(config)), Layers: []descriptor{blob(ofLayer, packed)},
		}))
		one.Platform = &config.ociPlatform
		all.Manifests = append(all.Manifests, one)
	}
	root := blob(ofIndex, encode(all))
	root.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": version,
		"io.containerd.image.name":          imageName + ":" + version,
	}
	files = append(files,
		file{"index.json", 0o644, encode(index{2, ofIndex, []descriptor{root}})},
		file{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	return pack(files)
}

// configOf returns how to run a layer, whose tar is unpacked.
func configOf(l layer, version string, unpacked []byte) imageConfig {
	c := imageConfig{ociPlatform: ociPlatform{Architecture: l.arch, OS: "linux"}, Config: containerConfig{
		User:         "65532:65532",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "6070/tcp": {}},
		Entrypoint:   []string{"/weir"},
		Cmd:          []string{"serve", "--operator", ":6070", "/etc/weir"},
		Labels: map[string]string{
			"org.opencontainers.image.source":   repository,
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.licenses": "MIT",
		},
	}}
	c.RootFS.Type = "layers"
	c.RootFS.DiffIDs = []string{fmt.Sprintf("sha256:%x", sha256.Sum256(unpacked))}
	return c
}

// encode returns v in JSON. It is for types without anything that JSON lacks.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

type file struct {
	name string
	mode int64
	data []byte
}

// pack returns a tar of files, whose times are all the same.
func pack(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		err := w.WriteHeader(&tar.Header{
			Name: f.name, Mode: f.mode, Size: int64(len(f.data)),
			ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// compress returns data in gzip, without a name or a time.
func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
