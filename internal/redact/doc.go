// Package redact takes secrets out of what is shown to others: texts, objects, and what the API server says.
//
// Of objects it knows the fields that may hold anything, such as environment variables, arguments of foreign
// containers, annotations and the content of ConfigMaps: there only what is known to be harmless stays, and names stay
// without their values. Texts, such as the lines of a log, have no fields; there it takes out what looks like a secret,
// rather too much than too little. It is pure, and it never makes it safe to send a Secret: those are not to be read at
// all.
//
// Start reading at YAML for objects, at Text for everything else.
package redact
