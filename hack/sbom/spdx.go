package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// The parts of a document of SPDX 2.3 that are written here: https://spdx.github.io/spdx-spec/v2.3.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID            string          `json:"SPDXID"`
		Name          string          `json:"name"`
		Version       string          `json:"versionInfo,omitempty"`
		Supplier      string          `json:"supplier,omitempty"`
		Location      string          `json:"downloadLocation"`
		FilesAnalyzed bool            `json:"filesAnalyzed"`
		Concluded     string          `json:"licenseConcluded"`
		Declared      string          `json:"licenseDeclared"`
		Copyright     string          `json:"copyrightText"`
		References    []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Related string `json:"relatedSpdxElement"`
		Type    string `json:"relationshipType"`
	}
)

const unknown = "NOASSERTION"

// document writes what was found as SPDX. The same parts give the same namespace, whenever they were looked at.
func document(name string, parts []part, now time.Time) ([]byte, error) {
	sum := sha256.New()
	for _, one := range parts {
		if _, err := fmt.Fprintln(sum, one.URL); err != nil {
			return nil, err
		}
	}
	blank := func(id, name string) spdxPackage {
		return spdxPackage{
			ID: id, Name: name, Location: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown,
		}
	}
	made := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: "https://meridian.dev/spdx/" + name + "-" + hex.EncodeToString(sum.Sum(nil)[:16]),
		Creation: spdxCreation{
			Created: now.Format(time.RFC3339), Creators: []string{"Tool: meridian-sbom", "Organization: Meridian"},
		},
		Packages:      []spdxPackage{blank("SPDXRef-root", name)},
		Relationships: []spdxRelationship{{"SPDXRef-DOCUMENT", "SPDXRef-root", "DESCRIBES"}},
	}
	for i, one := range parts {
		entry := blank(fmt.Sprintf("SPDXRef-part-%d", i+1), one.Name)
		entry.Version = one.Version
		if one.Supplier != "" {
			entry.Supplier = "Organization: " + one.Supplier
		}
		entry.References = []spdxReference{{"PACKAGE-MANAGER", "purl", one.URL}}
		made.Packages = append(made.Packages, entry)
		made.Relationships = append(made.Relationships, spdxRelationship{"SPDXRef-root", entry.ID, "CONTAINS"})
	}
	text, err := json.MarshalIndent(made, "", "  ")
	return append(text, '\n'), err
}
