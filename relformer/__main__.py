from relformer.cli import main

main()
