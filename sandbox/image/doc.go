// Package image builds the project's container images without Docker: from Debian packages, or from one static Go
// binary, to a file that `ctr images import` and `docker load` accept.
//
// What an image holds is written in recipes (images/<recipe>/image.yaml, see Recipe), next to a Dockerfile that gives
// the same image. The package never decides content by itself: packages, paths to leave out and the account are all in
// the recipe, and the one script that trims a Debian tree is shared with the Dockerfiles. It talks to no registry; the
// only things it fetches are Debian packages, from the mirror that the machine itself uses.
//
// A built image lies in a cache under a name that holds the hash of everything it was made from, so it is built again
// only when an input changes. Start reading at Build.
package image
