// Package draft is a plan in the making: what the rules of every topic add to, and how. A pause, a stop and an invalid
// spec are respected here and nowhere else: a rule says what kind of action it adds, and not whether it is allowed now.
//
// Start reading at Draft.
package draft
