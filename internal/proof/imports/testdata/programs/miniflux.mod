// What go.mod of https://github.com/miniflux/v2 at 00eab036557bb28b752c7d99bd33eea71aa249c0 of 2024-02-08 requires.

module miniflux.app/v2

go 1.21

require (
	github.com/PuerkitoBio/goquery v1.8.1
	github.com/abadojack/whatlanggo v1.0.1
	github.com/coreos/go-oidc/v3 v3.9.0
	github.com/go-webauthn/webauthn v0.10.1
	github.com/google/uuid v1.6.0
	github.com/gorilla/mux v1.8.1
	github.com/lib/pq v1.10.9
	github.com/prometheus/client_golang v1.18.0
	github.com/tdewolff/minify/v2 v2.20.16
	github.com/yuin/goldmark v1.7.0
	golang.org/x/crypto v0.19.0
	golang.org/x/net v0.21.0
	golang.org/x/oauth2 v0.16.0
	golang.org/x/term v0.17.0
	mvdan.cc/xurls/v2 v2.5.0
)

require (
	github.com/andybalholm/cascadia v1.3.2 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/fxamacker/cbor/v2 v2.5.0 // indirect
	github.com/go-jose/go-jose/v3 v3.0.1 // indirect
	github.com/go-webauthn/x v0.1.8 // indirect
	github.com/golang-jwt/jwt/v5 v5.2.0 // indirect
	github.com/golang/protobuf v1.5.3 // indirect
	github.com/google/go-tpm v0.9.0 // indirect
	github.com/matttproud/golang_protobuf_extensions/v2 v2.0.0 // indirect
	github.com/mitchellh/mapstructure v1.5.0 // indirect
	github.com/prometheus/client_model v0.5.0 // indirect
	github.com/prometheus/common v0.45.0 // indirect
	github.com/prometheus/procfs v0.12.0 // indirect
	github.com/tdewolff/parse/v2 v2.7.11 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/sys v0.17.0 // indirect
	golang.org/x/text v0.14.0 // indirect
	google.golang.org/appengine v1.6.8 // indirect
	google.golang.org/protobuf v1.31.0 // indirect
)
