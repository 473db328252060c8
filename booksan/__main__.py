from booksan.cli import main

main()
