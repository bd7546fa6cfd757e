// Package arch tests the structure of the module: which packages may import
// which, that every package has a package comment, and that mains and files
// stay small. It contains no other code.
package arch
