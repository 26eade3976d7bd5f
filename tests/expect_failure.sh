#!/bin/sh
# usage: expect_failure.sh TEXT COMMAND...   Pass when COMMAND fails and says TEXT.
text=$1
shift
if output=$("$@" 2>&1); then
    echo "succeeded, but should have failed: $*"
    exit 1
fi
echo "$output"
case $output in
*"$text"*) exit 0 ;;
esac
echo "failed without saying '$text': $*"
exit 1
