// Package arch tests the structure of the module: which packages may import which, that
// every package has a package comment, that files, mains and types stay small, that the
// documents name what exists, that retired words stay away, and that the recipes of
// CONTRIBUTING.md work. It contains no other code.
package arch
