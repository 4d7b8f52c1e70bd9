// Intoto checks a provenance by the library of in-toto: its fields, and what must be there.
package main

import (
	"fmt"
	"os"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var s statement.Statement
	check(protojson.Unmarshal(text, &s))
	check(s.Validate())
	predicate, err := protojson.Marshal(s.Predicate)
	check(err)
	var p provenance.Provenance
	check(protojson.Unmarshal(predicate, &p))
	check(p.Validate())
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
