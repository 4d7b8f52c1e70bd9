//go:build ignore

// Image writes an OCI archive of one static binary, without a daemon:
//
//	go run .ci/image.go -arch amd64 -tag v1.2.3 -o weir.tar path/to/weir
//
// The image is that of cmd/weir/Containerfile. "podman load -i weir.tar"
// loads it, and so does "skopeo copy oci-archive:weir.tar".
// The same binary gives the same archive, to the byte.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	arch := flag.String("arch", "amd64", "the processor of the binary")
	tag := flag.String("tag", "latest", "the tag of the image")
	to := flag.String("o", "", "the archive")
	flag.Parse()
	if flag.NArg() != 1 || *to == "" {
		log.Fatal("name a binary, and an archive by -o")
	}
	binary, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	archive, err := image(binary, *arch, *tag)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*to, archive, 0o644); err != nil {
		log.Fatal(err)
	}
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// image returns the archive: https://github.com/opencontainers/image-spec, version 1.1.
func image(binary []byte, arch, tag string) ([]byte, error) {
	layer, err := pack([]file{{"weir", 0o755, binary}})
	if err != nil {
		return nil, err
	}
	var files []file
	blob := func(mediaType string, data []byte) descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		files = append(files, file{"blobs/sha256/" + sum, 0o644, data})
		return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
	}
	layerBlob := blob("application/vnd.oci.image.layer.v1.tar", layer)
	config := blob("application/vnd.oci.image.config.v1+json", encode(map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{
			"User": "65532:65532", "Entrypoint": []string{"/weir"}, "Cmd": []string{"serve", "--operator", ":6070", "/etc/weir"},
			"ExposedPorts": map[string]any{"8080/tcp": struct{}{}, "8081/tcp": struct{}{}, "6070/tcp": struct{}{}},
			"Labels": map[string]string{
				"org.opencontainers.image.source":  "https://github.com/weir-go/weir",
				"org.opencontainers.image.version": tag,
			},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	}))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config, "layers": []descriptor{layerBlob},
	}))
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag}
	index := encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
		"manifests": []descriptor{manifest},
	})
	files = append(files,
		file{"index.json", 0o644, index},
		file{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	return pack(files)
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		log.Fatal(err)
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
